//go:build linux

// Without these settings, the runtime would open files of the cgroup to find a limit of processors, which does not
// matter here. Options could name the numbers of these descriptors.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Nsrun runs commands in sandboxes. See README.md, or `nsrun help`.
//
// verbs.go is the table of verbs, each of which has a file of its own. runflags.go has the flags of `nsrun run`, and
// request.go makes a Config and a Request of them. The packages in internal are what several verbs share.
package main

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/bwrapmode"
	"github.com/nsrun/nsrun/cmd/nsrun/internal/console"
	"github.com/nsrun/nsrun/internal/reexec"
	"github.com/nsrun/nsrun/internal/secureexec"
)

func init() {
	// Sandboxes end with the thread that cloned them. Threads of this program live as long as the program, because
	// no goroutine ends while it is locked to one.
	reexec.InProcess = true
}

func main() {
	if secureexec.On() {
		os.Exit(refuseElevated(os.Args))
	}
	asBwrap := filepath.Base(os.Args[0]) == "bwrap"
	if err := enoughFiles(); err != nil {
		if asBwrap {
			os.Exit(bwrapmode.Refuse(err.Error()))
		}
		os.Exit(console.Fail(err))
	}
	if asBwrap {
		os.Exit(bwrapmode.Run(os.Args, nil))
	}
	if len(os.Args) > 1 {
		if run := action(os.Args[1]); run != nil {
			console.RelaySignals()
			os.Exit(run(os.Args[2:]))
		}
		switch first := os.Args[1]; {
		case first == "-h":
			os.Exit(cmdHelp(nil))
		case first != "" && first[0] != '-' && !isProgram(first):
			os.Exit(noVerb(os.Args[1:]))
		}
		os.Exit(bwrapmode.Run(os.Args, &ownOptions))
	}
	os.Exit(cmdHelp(nil))
}

// refuseElevated refuses to do anything for a caller who has fewer rights than this program.
func refuseElevated(argv []string) int {
	if len(argv) == 0 || filepath.Base(argv[0]) != "bwrap" {
		return console.Fail(secureexec.Err)
	}
	return bwrapmode.RefuseElevated()
}

// enoughFiles says so if so few files can be opened that the Go runtime itself would end in a panic.
func enoughFiles() error {
	const needed, plenty = 8, 64
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur >= plenty {
		return nil
	}
	for range needed / 2 {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		defer unix.Close(p[0])
		defer unix.Close(p[1])
	}
	return nil
}
