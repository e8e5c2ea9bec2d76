//go:build linux && go1.26 && !go1.28 && !nsrun_plain

package prerun

import (
	"syscall"
	"unsafe"
)

// all are the namespaces of --unshare-all. `nsrun run` needs the same, but not the one for cgroups if the command sees
// the host's cgroup file systems.
const all = syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC |
	syscall.CLONE_NEWUTS | syscall.CLONE_NEWCGROUP

// wanted guesses from the arguments which namespaces are going to be needed. Zero: no
// sandbox. The guess may be wrong: a clone that is not needed ends, and one that is
// missing is made later.
//
//go:nosplit
//go:norace
func wanted(argc int, argv unsafe.Pointer) (flags uintptr) {
	first := at(argv, 1)
	if equal(first, "run") {
		for i := 2; i < argc; i++ {
			a := at(argv, i)
			if equal(a, "landlock") || equal(a, "--backend=landlock") {
				return 0
			}
			if equal(a, "strict") || equal(a, "workspace-root") || equal(a, "--preset=strict") || equal(a, "--preset=workspace-root") {
				return all
			}
		}
		return all &^ syscall.CLONE_NEWCGROUP
	}
	if *(*byte)(first) != '-' {
		return 0
	}
	flags = syscall.CLONE_NEWUSER
	for i := 1; i < argc; i++ {
		a := at(argv, i)
		if *(*byte)(a) != '-' {
			continue
		}
		switch {
		case equal(a, "--"):
			return flags
		case equal(a, "--unshare-all"):
			flags |= all
		case equal(a, "--unshare-pid"):
			flags |= syscall.CLONE_NEWPID
		case equal(a, "--unshare-net"):
			flags |= syscall.CLONE_NEWNET
		case equal(a, "--unshare-ipc"):
			flags |= syscall.CLONE_NEWIPC
		case equal(a, "--unshare-uts"):
			flags |= syscall.CLONE_NEWUTS
		case equal(a, "--unshare-cgroup"), equal(a, "--unshare-cgroup-try"):
			flags |= syscall.CLONE_NEWCGROUP
		case equal(a, "--share-net"):
			flags &^= syscall.CLONE_NEWNET
		case equal(a, "--uid"), equal(a, "--gid"), equal(a, "--userns"), equal(a, "--userns2"), equal(a, "--pidns"),
			equal(a, "--netns"), equal(a, "--cap-add"), equal(a, "--uid-map"), equal(a, "--gid-map"),
			equal(a, "--userns-block-fd"), equal(a, "--info-fd"), equal(a, "--json-status-fd"), equal(a, "--args"),
			equal(a, "--allow-loopback-failure"), equal(a, "--help"), equal(a, "--version"):
			return 0
		case equal(a, "--file"), equal(a, "--bind-data"), equal(a, "--ro-bind-data"), equal(a, "--bind-fd"), equal(a, "--ro-bind-fd"),
			equal(a, "--seccomp"), equal(a, "--add-seccomp-fd"), equal(a, "--sync-fd"), equal(a, "--block-fd"):
			// If the caller has closed this descriptor, ours could get its number.
			if i+1 < argc && threeDigits(at(argv, i+1)) {
				return 0
			}
		}
	}
	return flags
}

// threeDigits reports whether a C string has three or more bytes, as the number highFd has.
//
//go:nosplit
//go:norace
func threeDigits(c unsafe.Pointer) bool {
	for i := range 3 {
		if *(*byte)(unsafe.Add(c, i)) == 0 {
			return false
		}
	}
	return true
}

// at returns the i-th argument.
//
//go:nosplit
//go:norace
func at(argv unsafe.Pointer, i int) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Add(argv, 8*i))
}

// equal compares a C string with a string.
//
//go:nosplit
//go:norace
func equal(c unsafe.Pointer, s string) bool {
	for i := 0; i < len(s); i++ {
		if *(*byte)(unsafe.Add(c, i)) != s[i] {
			return false
		}
	}
	return *(*byte)(unsafe.Add(c, len(s))) == 0
}
