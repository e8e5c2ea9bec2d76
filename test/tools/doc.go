// Package tools runs developers' everyday commands with and without nsrun, and compares the results.
//
// It has no code but tests. A task is a script. It runs natively, and in a copy of the same project by `nsrun run
// --commit`; afterwards exit status, standard output, the files of the project, and what a second native command prints
// have to be the same. The quick tasks are part of `go test`; `make test-tools` installs the packages that are missing
// and runs all, also by `nsrun run --direct`. Other tasks are typed at a terminal.
//
// It may import internal/testenv only.
package tools
