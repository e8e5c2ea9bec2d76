//go:build linux

package features_test

import (
	"fmt"

	"github.com/nsrun/nsrun/features"
)

// No sandbox can be started without the features that are required.
func ExampleProbe() {
	ready := true
	for _, f := range features.Probe() {
		if f.Required && f.Status == features.No {
			fmt.Printf("%s is missing, which is needed for %s: %s\n", f.Name, f.For, f.Remedy)
			ready = false
		}
	}
	fmt.Println("ready:", ready)
	// Output: ready: true
}
