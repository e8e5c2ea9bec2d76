//go:build linux

package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/jsonform"
	"github.com/nsrun/nsrun/internal/latercases"
	"github.com/nsrun/nsrun/internal/testenv"
)

// TestHeld: a call puts nothing into the project that would be executed there, and its
// result says so.
func TestHeld(t *testing.T) {
	p := newPlace(t)
	for i, k := range latercases.Some() {
		if !testenv.Turn(i) {
			continue
		}
		top, err := os.MkdirTemp(p.at(""), "case-")
		if err != nil {
			t.Fatal(err)
		}
		project := latercases.Place(t, top, k.Setup)
		c := p.connect("", nil, "--project", project)
		res := c.call(args{"command": latercases.Script(k.Plant)})
		r := structured(t, res)
		if res.IsError || !strings.Contains(r.Text, "HELD BACK: ") || len(r.Held) == 0 || r.Session == "" {
			t.Errorf("%s: %+v", k.Name, r)
		}
		for i, name := range k.Held {
			// The list has an end.
			if i < maxChanges/2 && len(r.Held) < maxChanges && !slices.ContainsFunc(r.Held, func(h jsonform.Held) bool { return h.Path == name && h.Reason != "" }) {
				t.Errorf("%s: %s was not held back", k.Name, name)
			}
			if _, err := os.Lstat(project + "/" + name); err == nil && k.Setup == "" {
				t.Errorf("%s: %s is in the project", k.Name, name)
			}
		}
		if k.Trigger != "" && latercases.Has(k.Needs) {
			out, _ := latercases.Outside(project, k.Trigger)
			if latercases.Ran(project) {
				t.Errorf("%s: the file was executed\n%s", k.Name, out)
			}
		}
		c.close()
	}
}

// TestHeldSpecial: special files are held back one by one, and named.
func TestHeldSpecial(t *testing.T) {
	p := newPlace(t)
	c := p.connect("", nil)
	res := c.call(args{"command": "echo x >plain; mkfifo pipe"})
	r := structured(t, res)
	want := []jsonform.Held{{Root: p.at("p"), Path: "pipe", Reason: "is a FIFO"}}
	if res.IsError || !slices.Equal(r.Held, want) || !strings.Contains(r.Text, `HELD BACK: pipe (is a FIFO) is not in the project. The user can review and commit it: `) ||
		!strings.Contains(r.Text, "nsrun review --allow-special "+r.Session) {
		t.Errorf("%+v", r)
	}
	if _, err := os.Lstat(p.at("p/plain")); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(p.at("p/pipe")); err == nil {
		t.Error("the FIFO is in the project")
	}
	c.close()
}
