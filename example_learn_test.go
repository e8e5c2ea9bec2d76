//go:build linux

package nsrun_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nsrun/nsrun"
)

// A command reads a file of the host that it does not see: what it needs is a rule for that file.
func ExampleLearn() {
	dir, err := os.MkdirTemp("", "nsrun-example-") // commands have a /tmp of their own
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("text\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	lesson, err := nsrun.Learn(context.Background(), nsrun.Config{}, nsrun.Request{Args: []string{"cat", file}}, nsrun.LearnOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, need := range lesson.Needs {
		fmt.Println(need.Kind, need.Target == file, need.Program)
	}
	// Output: read true cat
}
