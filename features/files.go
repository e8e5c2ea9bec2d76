//go:build linux

package features

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
)

// The probes of what a host has in /proc and /dev.

// emulator returns the name of the program that executes this one and makes system calls in its place, as qemu's user
// mode and proot do, or "". Both answer for /proc/self, and forget /proc/thread-self.
func emulator(readlink func(string) (string, error)) string {
	own, err := readlink("/proc/self/exe")
	if err != nil {
		return ""
	}
	other, err := readlink("/proc/thread-self/exe")
	if err != nil || other == own {
		return ""
	}
	return filepath.Base(other)
}

// emulatedError names an emulator.
type emulatedError struct{ absentError }

func (emulatedError) sentence() {}

func tryDirect() error {
	if name := emulator(os.Readlink); name != "" {
		return emulatedError{absentError(name + " executes nsrun, and does not make all of its system calls")}
	}
	return nil
}

func directRemedy(error) string {
	name := emulator(os.Readlink)
	text := "run nsrun outside of " + name
	if strings.HasPrefix(name, "qemu-") {
		text += ", built for this machine's processor"
	}
	return text
}

// tryProc looks for a /proc in which this process is.
func tryProc() error {
	self, err := os.Readlink("/proc/self")
	if err == nil && self == strconv.Itoa(os.Getpid()) {
		return nil
	}
	if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		return absentError("there is no /proc here, or that of another PID namespace")
	}
	return err
}

const errReadOnlyProc = absentError("/proc is mounted read-only, and ids are mapped by a file in it")

// tryUser makes a user namespace, and maps one id.
func tryUser() error {
	err := inside(func(*prog.Builder) {}, nil)
	if errors.Is(err, unix.EROFS) {
		return errReadOnlyProc
	}
	return err
}

// tryDevices looks for the devices that each sandbox shows.
func tryDevices() error {
	var wrong []string
	for i := range prog.HostDevices {
		d := &prog.HostDevices[i]
		found, err := isDevice(d)
		if err != nil && err != unix.ENOENT {
			return err
		}
		if !found {
			wrong = append(wrong, devicePath(d))
		}
	}
	if wrong != nil {
		return absentError("nothing, or another file, is at " + strings.Join(wrong, ", "))
	}
	if closed := closedDevices(); closed != nil {
		return absentError("the kernel opens no device where nodev is among the options of a mount: " + strings.Join(closed, ", "))
	}
	return nil
}

// closedDevices returns the mounts of devices that are mounted with nodev: /dev, or the devices that are mounts. Those
// can be open where /dev itself is not, as in a user namespace.
func closedDevices() []string {
	nodev := func(name string) bool {
		var st unix.Statfs_t
		return unix.Statfs(name, &st) == nil && st.Flags&unix.ST_NODEV != 0
	}
	var list []string
	for i := range prog.HostDevices {
		if name := devicePath(&prog.HostDevices[i]); nodev(name) {
			list = append(list, name)
		}
	}
	if len(list) == len(prog.HostDevices) && nodev("/dev") {
		return []string{"/dev"}
	}
	return list
}

func devicePath(d *prog.HostDevice) string { return "/dev/" + d.Name }

// isDevice reports whether a device is there. The error is ENOENT if nothing is there.
func isDevice(d *prog.HostDevice) (bool, error) {
	var st unix.Stat_t
	if err := unix.Lstat(devicePath(d), &st); err != nil {
		return false, err
	}
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(d.Major, d.Minor), nil
}

// devicesRemedy says how root makes the devices that are missing, or opens those that are there.
func devicesRemedy(error) string {
	var list []string
	for i := range prog.HostDevices {
		d := &prog.HostDevices[i]
		found, err := isDevice(d)
		if found {
			continue
		}
		text := "mknod -m 666 " + devicePath(d) + " c " + strconv.Itoa(int(d.Major)) + " " + strconv.Itoa(int(d.Minor))
		if err == nil {
			text = "rm -r " + devicePath(d) + " && " + text
		}
		list = append(list, text)
	}
	if list == nil {
		for _, name := range closedDevices() {
			list = append(list, "mount -o remount,bind,dev "+name)
		}
	}
	if len(list) == len(prog.HostDevices) && !strings.HasPrefix(list[0], "mount") {
		return "mount -t devtmpfs dev /dev"
	}
	return strings.Join(list, " && ")
}
