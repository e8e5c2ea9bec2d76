//go:build linux

package features

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/secureexec"
)

// insideName is argv[0] of this program, started again to try things in
// namespaces of its own.
const insideName = "nsrun:probe"

func init() {
	if len(os.Args) > 0 && os.Args[0] == insideName && !secureexec.On() {
		inside()
		os.Exit(0)
	}
}

// tryInside starts this program again in new namespaces and returns what it could
// do there, by name. The error of starting it stands under "".
func tryInside() map[string]error {
	results := make(map[string]error)
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{insideName}
	cmd.Env = []string{}
	var out bytes.Buffer
	cmd.Stdout = &out
	uid, gid := os.Geteuid(), os.Getegid()
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	err := cmd.Run()
	results[""] = err
	if err != nil {
		if pe, ok := errors.AsType[*os.PathError](err); ok {
			results[""] = pe.Err
		}
		return results
	}
	for line := range strings.Lines(out.String()) {
		name, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		var err error
		if text != "" {
			err = errors.New(text)
		}
		results[name] = err
	}
	return results
}

// inside tries one thing after the other; each stands on those before it.
func inside() {
	try := func(name string, err error) bool {
		text := ""
		if err != nil {
			text = err.Error()
		}
		_, werr := os.Stdout.WriteString(name + "\t" + text + "\n")
		return err == nil && werr == nil
	}
	try(nameNet, unix.Unshare(unix.CLONE_NEWNET))
	if !try(nameMount, unix.Unshare(unix.CLONE_NEWNS)) {
		return
	}
	if err := unix.Mount("tmpfs", "/tmp", "tmpfs", 0, ""); err != nil {
		try(nameMount, err)
		return
	}
	try(nameOverlay, overlay("/tmp"))
	try(namePID, pidProc("/tmp"))
}

// overlay mounts an overlay on a tmpfs.
func overlay(dir string) error {
	for _, d := range [...]string{"/lower", "/upper", "/work", "/merged"} {
		if err := unix.Mkdir(dir+d, 0o755); err != nil {
			return err
		}
	}
	return unix.Mount("overlay", dir+"/merged", "overlay", 0,
		"lowerdir="+dir+"/lower,upperdir="+dir+"/upper,workdir="+dir+"/work,userxattr")
}

// pidProc mounts the procfs of a new PID namespace, which is where containers that
// mask parts of /proc stop.
func pidProc(dir string) error {
	if err := unix.Mkdir(dir+"/proc", 0o755); err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{insideName + "-proc", dir + "/proc"}
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	if len(out) > 0 {
		return errors.New(string(out))
	}
	return nil
}

func init() {
	if len(os.Args) == 2 && os.Args[0] == insideName+"-proc" && !secureexec.On() {
		if err := unix.Mount("proc", os.Args[1], "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			_, _ = os.Stdout.WriteString(err.Error())
		}
		os.Exit(0)
	}
}
