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
				t.Errorf("%s: it was executed\n%s", k.Name, out)
			}
		}
		c.close()
	}
}
