//go:build linux

package fanotify_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/nsrun/nsrun/fanotify"
)

func Example() {
	dir, err := os.MkdirTemp("", "src-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	w, err := fanotify.New(fanotify.Options{Roots: []string{dir}})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()

	if err := errors.Join(
		os.Mkdir(filepath.Join(dir, "doc"), 0o755),
		os.Rename(filepath.Join(dir, "doc"), filepath.Join(dir, "docs")),
		os.Remove(filepath.Join(dir, "docs")),
	); err != nil {
		log.Fatal(err)
	}
	w.Stop() // what has happened so far is reported, and nothing else

	for ev, err := range w.Events() {
		switch {
		case err != nil:
			log.Fatal(err)
		case ev.Op == fanotify.Renamed:
			fmt.Println(ev.Op, ev.From, "to", ev.Path)
		default:
			fmt.Println(ev.Op, ev.Path)
		}
	}
	// Output:
	// created doc
	// renamed doc to docs
	// removed docs
}

// Engine tells how a Watcher learns of events.
func ExampleWatcher_Engine() {
	dir, err := os.MkdirTemp("", "src-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	w, err := fanotify.New(fanotify.Options{Roots: []string{dir}, Engine: fanotify.Inotify})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	fmt.Println(w.Engine())
	// Output: inotify
}
