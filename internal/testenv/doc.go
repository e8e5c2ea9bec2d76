//go:build linux

// Package testenv holds what tests of several packages need: leak checks, the second run as an ordinary user, skips
// that are checked, golden files, races, trees from one-line texts, and a terminal. Only tests import it.
//
// A package's TestMain calls Main, which runs the tests
//
//   - as root, in a mount namespace of their own where all mounts are shared, as under systemd, so that a test's mounts
//     are gone with it and leaks by propagation are seen;
//   - then, if the first run was as root, once more as a user without any privilege.
//
// Where no namespaces can be made, packages that call AllNeedNamespaces are skipped, and the others run in those that
// there are.
//
// The environment decides:
//
//	NSRUN_MUST_WORK=1          no test may be skipped
//	NSRUN_MUST_WORK=overlay,…  nor one for the lack of these features
//	NSRUN_LONG=1               each run does all cases of what takes long, and more rounds
//	NSRUN_TEST_MEMORY=1        temporary files are on a tmpfs, if root runs the tests and there is memory enough
//	NSRUN_TEST_HERE=1          all in one process, as it is: under an emulator, which cannot run it again
//	NSRUN_TEST_AS_USER=1       this is the run as a user; set by Main
package testenv
