//go:build linux

// Package strike runs a program and lets something go wrong at one of its system
// calls: it is killed there, or the call fails. Only tests import it.
//
// A test runs the program once without a fault, to see how many calls there are, and
// then once for each of them:
//
//	whole, err := strike.Run(command(), strike.Plan{})
//	for k := 1; k <= whole.Calls; k++ {
//		r, err := strike.Run(command(), strike.Plan{At: k, Do: strike.Kill})
//		…                       // r.Call: `renameat2 "/d/new" "/d/old"`
//	}
//
// The program says which part of it is meant, by Begin and End; nothing before,
// between and behind is counted, and hardly anything of it is slowed down. Counted are
// calls that can change a file system or wait for it, those that lock, and those that
// open files, over all threads and child processes, in the order in which they are
// entered.
//
// The program is traced with ptrace(2); a seccomp filter that Begin installs picks the
// calls, so that all others run as fast as ever.
package strike
