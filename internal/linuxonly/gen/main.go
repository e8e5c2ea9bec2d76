// Gen writes the files stubs.go: for all other systems, they declare what the public packages
// export on Linux only, with bodies that return a linuxonly.Error. They have no comments: the files
// for Linux have them, and pkg.go.dev and GOOS=linux go doc show those.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// module is the path of this module.
const module = "github.com/nsrun/nsrun"

// packages are those that programs outside of this module can import.
var packages = []string{
	".", "fanotify", "features", "mounts", "netpolicy", "netpolicy/broker", "netpolicy/cgroup", "nsexec", "overlay", "project",
}

// stubs is the file that is written, in each of them.
const stubs = "stubs.go"

func main() {
	for _, pkg := range packages {
		text, err := generate(pkg)
		name := filepath.Join(pkg, stubs)
		switch {
		case err == nil && text == nil: // all of it is for all systems
			err = os.RemoveAll(name)
		case err == nil:
			err = os.WriteFile(name, text, 0o666)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "gen: %s: %v\n", pkg, err)
			os.Exit(1)
		}
	}
}
