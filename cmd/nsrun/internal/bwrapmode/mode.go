//go:build linux

package bwrapmode

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/bwrap"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/nsexec"
)

type run struct {
	cfg     *bwrap.Config
	cmd     *nsexec.Cmd
	options *sandbox.Options // of cmd
	ops     []*bwrap.SetupOp // by index of cmd.Mounts
	block   bwrap.Opt[int]   // read before the namespaces are set up
	signals chan os.Signal   // to be forwarded; nil: none
	read    []int            // descriptors that were read while parsing
	words   []string         // the command line
	own     *Owner           // nil: we are bwrap
}

func haveCgroupNamespaces() bool {
	_, err := os.Stat("/proc/self/ns/cgroup")
	return err == nil
}

// An Owner is a program that offers bubblewrap's command line besides others. It also accepts its own options, and its
// messages may differ from bubblewrap's.
type Owner struct {
	Name    string
	Usage   string                                 // printed after bubblewrap's help
	Version func() int                             // prints it
	Hint    func(words []string, err error) string // what the user may have meant; empty: unknown
}

// say prints one of bubblewrap's messages, under the name that we were called by.
func (r *run) say(levelPrefix bool, severity int, text string) {
	program := "bwrap"
	if r.own != nil {
		program = r.own.Name
	}
	_, _ = os.Stderr.WriteString(bwrap.Message(program, levelPrefix, severity, text))
}

// privileges returns a message if this process has more privileges than its caller, which the caller could misuse.
func privileges() string {
	switch {
	case os.Geteuid() != os.Getuid():
		return "setuid use of bubblewrap is not supported"
	case os.Getuid() != 0 && effectiveCaps() != 0:
		return "Unexpected capabilities but not setuid, old file caps config?"
	}
	return ""
}

func effectiveCaps() uint64 {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&hdr, &data[0]) != nil {
		return 0
	}
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective)
}

// readFD reads a descriptor to its end and closes it. It does not use an os.File, because the runtime may then open
// descriptors of its own, and options could name their numbers.
func readFD(fd int) ([]byte, error) {
	defer unix.Close(fd)
	var data []byte
	for {
		data = slices.Grow(data, 4096)
		n, err := unix.Read(fd, data[len(data):cap(data)])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, err
		case n == 0:
			return data, nil
		default:
			data = data[:len(data)+n]
		}
	}
}

// isOpen reports whether a descriptor is open.
func isOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}
