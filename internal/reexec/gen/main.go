// Gen builds the image that package reexec executes, for each architecture:
//
//	go run ./internal/reexec/gen
//
// in the module's directory. It needs the Go version that is named in the file version beside the
// images, and gives the same bytes each time.
//
// The image is linked with an entry point of its own, so that the linker omits everything that the
// entry point does not reach. Two things would keep it from omitting all of the Go runtime: the
// initialization of package syscall, of which only numbers and bare system calls are needed, and
// the message of a function for methods that cannot be called. So both are replaced while the image
// is built.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/nsrun/nsrun/internal/reexec/gen/build"
)

func main() {
	if err := run("internal/reexec"); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run writes the files into a directory.
func run(dir string) error {
	for _, arch := range build.Architectures {
		image, _, err := build.Image(".", arch)
		if err != nil {
			return err
		}
		if err := os.WriteFile(dir+"/image_"+arch+".bin", image, 0o644); err != nil {
			return err
		}
		fmt.Println(arch, len(image), "bytes")
	}
	return os.WriteFile(dir+"/image.version", []byte(runtime.Version()+"\n"), 0o644)
}
