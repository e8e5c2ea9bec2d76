//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
)

// storm makes files in directories of a hundred; or makes a tenth of them, and renames each ten times. As a program of
// its own it does nothing else, so that nothing hides what the system takes.
func storm(what, files string) error {
	n, err := strconv.Atoi(files)
	times := 0
	if what == "rename" {
		n, times = n/10, 10
	}
	for i := 0; i < n && err == nil; i++ {
		if i%100 == 0 {
			err = os.MkdirAll(dir(i), 0o755)
		}
		if err == nil {
			err = os.WriteFile(stormFile(i, 0), []byte("text\n"), 0o644)
		}
	}
	for i := 0; i < n*times && err == nil; i++ {
		err = os.Rename(stormFile(i%n, i/n), stormFile(i%n, i/n+1))
	}
	return err
}

func dir(i int) string { return fmt.Sprintf("s/d%d", i/100) }

func stormFile(i, version int) string { return fmt.Sprintf("%s/f%d.%d", dir(i), i, version) }
