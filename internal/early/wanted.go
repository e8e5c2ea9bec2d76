package early

import "unsafe"

// wanted reports whether the arguments look like those of a sandbox with all
// namespaces. It may be wrong either way: what is not wanted after all is ended,
// and what is wanted and was not begun is made later.
//
//go:nosplit
//go:norace
func wanted(argc int, argv unsafe.Pointer) bool {
	first := at(argv, 1)
	if equal(first, "run") {
		return true
	}
	if *(*byte)(first) != '-' {
		return false
	}
	all := false
	for i := 1; i < argc; i++ {
		a := at(argv, i)
		if *(*byte)(a) != '-' {
			continue
		}
		switch {
		case equal(a, "--"):
			return all
		case equal(a, "--unshare-all"):
			all = true
		case equal(a, "--share-net"), equal(a, "--uid"), equal(a, "--gid"), equal(a, "--as-pid-1"),
			equal(a, "--userns"), equal(a, "--userns2"), equal(a, "--pidns"), equal(a, "--netns"),
			equal(a, "--cap-add"), equal(a, "--uid-map"), equal(a, "--gid-map"),
			equal(a, "--userns-block-fd"), equal(a, "--help"), equal(a, "--version"):
			return false
		}
	}
	return all
}

// at is the i-th argument.
//
//go:nosplit
//go:norace
func at(argv unsafe.Pointer, i int) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Add(argv, 8*i))
}

// equal compares a C string.
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
