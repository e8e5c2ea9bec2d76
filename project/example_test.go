//go:build linux

package project_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/nsrun/nsrun/project"
)

// What a command changed is in the log, with backups.
func Example() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	root := filepath.Join(dir, "src")
	name := filepath.Join(root, "notes")
	if err := errors.Join(os.Mkdir(root, 0o755), os.WriteFile(name, []byte("draft\n"), 0o644)); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()

	r := project.Open(project.Options{Dir: filepath.Join(dir, "state"), Cache: filepath.Join(dir, "cache")})
	defer r.Close()
	if err := r.Scan(ctx, root); err != nil { // these files are backed up from now on
		log.Fatal(err)
	}

	// A command is about to replace the file.
	change := project.Change{Kind: project.Modified, Root: root, Path: "notes", Mode: 0o644, OldMode: 0o644}
	rec, err := r.Record(ctx, project.Execution{Command: []string{"make", "notes"}, Roots: []string{root}},
		[]project.Change{change}, func(c project.Change) (*os.File, error) { return os.Open(c.Name()) })
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("final\n"), 0o644); err != nil {
		log.Fatal(err)
	}

	for e, err := range r.Executions(project.Filter{ID: rec.ID}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Command, e.Changes[0].Kind, e.Changes[0].Path)
	}

	// The version before it is put back.
	versions, err := r.Versions(name)
	if err != nil {
		log.Fatal(err)
	}
	version, err := project.Choose(versions, "", rec.ID)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := r.Restore(ctx, version, name); err != nil {
		log.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", b)
	// Output:
	// [make notes] modified notes
	// draft
}

// A permission holds for exactly what was asked for, until it is forgotten.
func ExampleRegistry_Set() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	r := project.Open(project.Options{Dir: filepath.Join(dir, "state"), Cache: filepath.Join(dir, "cache")})
	defer r.Close()
	if err := r.Set(project.Permission{
		Project:  "/home/me/src",
		Action:   project.Write,
		Target:   "/home/me/out",
		Decision: project.Allow,
	}); err != nil {
		log.Fatal(err)
	}

	for _, target := range []string{"/home/me/out", "/home/me"} {
		p, err := r.Get("/home/me/src", project.Write, target)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(target, p.Decision == project.Allow)
	}
	// Output:
	// /home/me/out true
	// /home/me false
}
