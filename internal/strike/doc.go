//go:build linux

// Package strike runs a program and injects a fault at one of its system calls: the program is killed there, or the
// call fails. Only tests import it; it imports nothing of this module.
//
// A test runs the program once without a fault, to see how many calls there are, and then once for each of them:
//
//	whole, err := strike.Run(command(), strike.Plan{})
//	for k := 1; k <= whole.Calls; k++ {
//		r, err := strike.Run(command(), strike.Plan{At: k, Do: strike.Kill})
//		…                       // r.Call: `renameat2 "/d/new" "/d/old"`
//	}
//
// The program marks the part to count with Begin and End. Nothing outside of it is counted, and hardly anything is
// slowed down. Strike counts calls that can change a file system or wait for it, calls that lock, and if asked for,
// calls that open files or look at them, over all threads and child processes, in the order in which they are entered.
//
// With Plan.Starts it counts calls that make processes and set up sandboxes instead, also in processes that no filter
// of this package has reached.
//
// The program is traced with ptrace(2). A seccomp filter that Begin installs selects the calls, so that all others run
// at full speed.
package strike
