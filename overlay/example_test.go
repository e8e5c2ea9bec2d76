//go:build linux

package overlay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// newProject makes a project with one file, and a state directory for its sessions.
func newProject() (project, state string, remove func()) {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	project, state = filepath.Join(dir, "project"), filepath.Join(dir, "state")
	if err := os.Mkdir(project, 0o755); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(project, "notes"), []byte("draft\n"), 0o644); err != nil {
		log.Fatal(err)
	}
	return project, state, func() { os.RemoveAll(dir) }
}

// run runs a shell command that writes to the session.
func run(s *overlay.Session, command string) {
	cmd := nsexec.Command("sh", "-c", command)
	cmd.Mounts = append(mounts.Plan{mounts.ROBind("/", "/"), mounts.Dev("/dev")}, s.Mounts()...)
	cmd.Layers = s.Layers()
	cmd.Dir = s.Roots()[0].Path
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil {
		log.Fatal(err)
	}
	if err := s.Collect(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// A command's changes are looked at, and then put into the project.
func Example() {
	project, state, remove := newProject()
	defer remove()

	s, err := overlay.Create(overlay.Options{Roots: []string{project}, Dir: state})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	cmd := nsexec.Command("sh", "-c", "echo final >notes; mkdir new")
	cmd.Mounts = append(mounts.Plan{mounts.ROBind("/", "/"), mounts.Dev("/dev")}, s.Mounts()...)
	cmd.Layers = s.Layers() // for the engines tmpfs and copy, as Collect is
	cmd.Dir = project
	if err := cmd.Run(); err != nil {
		log.Fatal(err)
	}
	if err := s.Collect(context.Background()); err != nil {
		log.Fatal(err)
	}

	for c, err := range s.Changes() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(c)
	}
	if err := s.Commit(context.Background()); err != nil {
		log.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(project, "notes"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", b)
	// Output:
	// A new/
	// M notes
	// final
}

// Both versions of a file can be read before the commit.
func ExampleSession_File() {
	project, state, remove := newProject()
	defer remove()
	s, err := overlay.Create(overlay.Options{Roots: []string{project}, Dir: state})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	run(s, "echo final >notes")

	for c, err := range s.Changes() {
		if err != nil {
			log.Fatal(err)
		}
		for _, side := range []overlay.Side{overlay.Before, overlay.After} {
			f, err := s.File(c, side)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Print(c.Path, ": ")
			if _, err := io.Copy(os.Stdout, f); err != nil {
				log.Fatal(err)
			}
			f.Close()
		}
	}
	// Output:
	// notes: draft
	// notes: final
}

// A commit can be taken back as long as the session is there.
func ExampleSession_Undo() {
	project, state, remove := newProject()
	defer remove()
	s, err := overlay.Create(overlay.Options{Roots: []string{project}, Dir: state})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	run(s, "rm notes")

	ctx := context.Background()
	if err := s.Commit(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = os.Stat(filepath.Join(project, "notes"))
	fmt.Println(s.State(), err == nil)

	if err := s.Undo(ctx, overlay.UndoOptions{}); err != nil {
		log.Fatal(err)
	}
	_, err = os.Stat(filepath.Join(project, "notes"))
	fmt.Println(s.State(), err == nil)
	// Output:
	// committed false
	// kept true
}

// A file that somebody else changed meanwhile is not overwritten.
func ExampleConflictError() {
	project, state, remove := newProject()
	defer remove()
	s, err := overlay.Create(overlay.Options{Roots: []string{project}, Dir: state})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	run(s, "echo final >notes")
	if err := os.WriteFile(filepath.Join(project, "notes"), []byte("mine\n"), 0o644); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	err = s.Commit(ctx)
	if e, ok := errors.AsType[*overlay.ConflictError](err); ok {
		for _, c := range e.Conflicts {
			fmt.Println("conflict:", c.Path)
		}
		err = s.CommitWith(ctx, overlay.CommitOptions{Prefer: overlay.Theirs})
	}
	if err != nil {
		log.Fatal(err)
	}
	// Output: conflict: notes
}

// Sessions stay until somebody decides about them: another process can go on with one.
func ExampleOpen() {
	project, state, remove := newProject()
	defer remove()
	s, err := overlay.Create(overlay.Options{Roots: []string{project}, Dir: state})
	if err != nil {
		log.Fatal(err)
	}
	run(s, "echo final >notes")
	id := s.ID()
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}

	s, err = overlay.Open(state, id)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	if err := s.Resume(nil); err != nil {
		log.Fatal(err)
	}
	run(s, "cat notes")
	// Output: final
}

func ExampleList() {
	project, state, remove := newProject()
	defer remove()
	for _, command := range []string{"make", "test"} {
		s, err := overlay.Create(overlay.Options{Roots: []string{project}, Dir: state, Command: []string{command}})
		if err != nil {
			log.Fatal(err)
		}
		if command == "test" {
			err = s.Discard()
		}
		if err := errors.Join(err, s.Close()); err != nil {
			log.Fatal(err)
		}
	}

	for info, err := range overlay.List(state) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(info.Command, info.State, len(info.Roots))
	}
	// Unordered output:
	// [make] kept 1
	// [test] discarded 1
}

// Clean removes sessions that have ended.
func ExampleClean() {
	project, state, remove := newProject()
	defer remove()
	s, err := overlay.Create(overlay.Options{Roots: []string{project}, Dir: state})
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(s.Discard(), s.Close()); err != nil {
		log.Fatal(err)
	}

	for c, err := range overlay.Clean(state, overlay.CleanOptions{Ended: -1}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("removed:", c.State)
	}
	// Output: removed: discarded
}
