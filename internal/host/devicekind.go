//go:build linux

package host

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	errNotDevice     = errors.New("it is not a character device; nsrun shows no disks and no directories of devices")
	errDeviceLink    = errors.New("it is a symbolic link: name the device itself")
	errHostMemory    = errors.New("it gives access to the memory or the log of this host")
	errHostDisks     = errors.New("it gives access to disks of this host")
	errHostTerminal  = errors.New("it is a terminal of this host")
	errUnknownDevice = errors.New("the kernel does not say what kind of device it is")
)

// deviceKind is what the kernel says of a character device. Its path says nothing: a node can have any name.
type deviceKind struct {
	major, minor uint32
	drivers      []string // that have its major number, from /proc/devices
	misc         string   // its name in /proc/misc, if it is one of those
	subsystem    string   // from sysfs; empty: its driver has not registered it there
}

// refusedNumbers are the numbers of devices that commands cannot have. They are those of the kernel's devices.txt,
// which do not change. A number of a driver that has none there is found by the names below.
var refusedNumbers = [...]struct {
	first, last           uint32 // major numbers
	firstMinor, lastMinor uint32
	err                   error
}{
	{1, 1, 0, 2, errHostMemory},                     // mem, kmem
	{1, 1, 4, 4, errHostMemory},                     // port
	{1, 1, 6, 6, errHostMemory},                     // core
	{1, 1, 10, maxMinor, errHostMemory},             // kmsg, oldmem
	{2, 3, 0, maxMinor, errHostTerminal},            // pseudoterminals of BSD
	{4, 4, 0, 63, errHostTerminal},                  // tty0 …; the others are serial ports
	{5, 5, 1, 2, errHostTerminal},                   // console, ptmx
	{7, 7, 0, maxMinor, errHostTerminal},            // vcs: what is on the screen
	{9, 9, 0, maxMinor, errHostDisks},               // st: SCSI tapes
	{miscMajor, miscMajor, 220, 222, errHostDisks},  // mptctl …
	{miscMajor, miscMajor, 231, 231, errHostMemory}, // snapshot: an image of the memory
	{miscMajor, miscMajor, 234, 234, errHostDisks},  // btrfs-control
	{miscMajor, miscMajor, 236, 237, errHostDisks},  // mapper/control, loop-control
	{miscMajor, miscMajor, 249, 249, errHostDisks},  // zfs
	{12, 12, 0, maxMinor, errHostDisks},             // QIC-02 tapes
	{21, 21, 0, maxMinor, errHostDisks},             // sg: any SCSI command
	{27, 27, 0, maxMinor, errHostDisks},             // floppy tapes
	{37, 37, 0, maxMinor, errHostDisks},             // IDE tapes
	{86, 86, 0, maxMinor, errHostDisks},             // sch: SCSI changers
	{90, 90, 0, maxMinor, errHostDisks},             // mtd: flash memory
	{96, 97, 0, maxMinor, errHostDisks},             // pt, pg: tapes and disks at parallel ports
	{128, 143, 0, maxMinor, errHostTerminal},        // pts
	{152, 152, 0, maxMinor, errHostDisks},           // etherd
	{162, 162, 0, maxMinor, errHostDisks},           // raw
	{202, 202, 0, maxMinor, errHostMemory},          // cpu/N/msr: with these registers, any code runs in the kernel
	{206, 206, 0, maxMinor, errHostDisks},           // osst: SCSI tapes
}

const (
	miscMajor = 10
	maxMinor  = 1<<20 - 1
)

// These are subsystems, drivers and misc devices that commands cannot have. Those of disks are controllers that take
// any command for their disks, disks and tapes that are character devices, and what makes, joins or removes disks.
var (
	diskNames = [...]string{
		"scsi_generic", "sg", "bsg", "nvme", "nvme-generic", "nvme-subsystem", "nvme-fabrics", "scsi_tape", "st", "scsi_changer", "ch",
		"onstream_tape", "osst", "tape", "mtd", "ubi", "ubi_ctrl", "raw", "aoe", "aoechr", "rpmb", "mmc_rpmb", "ublk-char", "ublk-control",
		"bcachefs", "device-mapper", "loop-control", "btrfs-control", "zfs", "pktcdvd",
		"megaraid_sas_ioctl", "megadev", "megadev_legacy", "mptctl", "mpt2ctl", "mpt3ctl", "aac", "twe", "twa", "twl",
		"gdth", "i2octl", "dpt_i2o", "pmcsas", "lpfcmgmt",
	}
	memoryNames   = [...]string{"dax", "nd", "ndctl", "dimmctl", "cxl", "cpu/msr", "msr", "crash", "snapshot"}
	terminalNames = [...]string{"vc", "vcs"}
)

// refused is why commands cannot have a device.
func (k *deviceKind) refused() error {
	for _, r := range &refusedNumbers {
		if k.major >= r.first && k.major <= r.last && k.minor >= r.firstMinor && k.minor <= r.lastMinor {
			return r.err
		}
	}
	for _, name := range append([]string{k.misc, k.subsystem}, k.drivers...) {
		name = strings.TrimRight(name, "0123456789") // UBI's drivers are ubi0, ubi1, …
		switch {
		case slices.Contains(diskNames[:], name):
			return errHostDisks
		case slices.Contains(memoryNames[:], name):
			return errHostMemory
		case slices.Contains(terminalNames[:], name):
			return errHostTerminal
		}
	}
	if k.subsystem == "" && (k.major == miscMajor && k.misc == "" && dynamicMinor(k.minor) || len(k.drivers) == 0 && dynamicMajor(k.major)) {
		return errUnknownDevice
	}
	return nil
}

// dynamicMajor reports whether the kernel, or a driver as it likes, decides what a major number stands for.
func dynamicMajor(n uint32) bool { return n >= 60 && n <= 63 || n >= 120 && n <= 127 || n >= 234 }

// dynamicMinor is dynamicMajor for the minor numbers of misc devices.
func dynamicMinor(n uint32) bool { return n < 128 || n >= 240 }

// kindOf asks the kernel about a number. What it does not say is left out.
func kindOf(rdev uint64) *deviceKind {
	k := &deviceKind{major: unix.Major(rdev), minor: unix.Minor(rdev)}
	devices, _ := os.ReadFile("/proc/devices")
	characters, _, _ := strings.Cut(string(devices), "\n\n") // then block devices follow
	k.drivers = numbered(characters, k.major)
	if k.major == miscMajor {
		misc, _ := os.ReadFile("/proc/misc")
		if names := numbered(string(misc), k.minor); len(names) > 0 {
			k.misc = names[0]
		}
	}
	if link, err := os.Readlink("/sys/dev/char/" + strconv.Itoa(int(k.major)) + ":" + strconv.Itoa(int(k.minor)) + "/subsystem"); err == nil {
		k.subsystem = filepath.Base(link)
	}
	return k
}

// numbered are the names that a list of lines NUMBER NAME has for a number.
func numbered(list string, number uint32) (names []string) {
	for line := range strings.Lines(list) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == strconv.Itoa(int(number)) {
			names = append(names, words[1])
		}
	}
	return names
}
