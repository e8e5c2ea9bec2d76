//go:build linux

package project

import (
	"testing"
	"time"
)

// What was committed is not dropped because the same file was changed, and that dropped, later.
func TestDropped(t *testing.T) {
	p := newPlace(t)
	p.tree("f: 1", "g: 1")
	p.scan()
	f, g := p.change(Modified, "f"), p.change(Modified, "g")
	began := p.now().Add(-time.Hour)
	record := func(session string, changes ...Change) {
		began = began.Add(time.Second)
		p.record(Execution{Session: session, State: StateKept, Began: began}, changes...)
	}
	record("s", g)
	record("s", f, g)
	p.must(p.Committed(ctx, "s", false, []Change{f}))
	record("s", f)
	p.must(p.Dropped(ctx, "s", []Change{f}))
	dropped := func() (list []bool) { // the newest first
		for _, e := range p.executions(Filter{Session: "s"}) {
			for _, c := range e.Changes {
				list = append(list, c.Dropped)
			}
		}
		return list
	}
	same := func(what string, want ...bool) {
		t.Helper()
		got := dropped()
		for i := range want {
			if len(got) != len(want) || got[i] != want[i] {
				t.Fatalf("%s: %v, want %v", what, got, want)
			}
		}
	}
	same("f, which was committed in between", true, false, false, false)
	p.must(p.Dropped(ctx, "s", []Change{g}))
	same("g", true, false, true, false)

	record("t", f)
	record("t", f)
	p.must(p.Dropped(ctx, "t", []Change{f}))
	for _, e := range p.executions(Filter{Session: "t"}) {
		if !e.Changes[0].Dropped {
			t.Error("where nothing was committed both are dropped")
		}
	}
	same("another session", true, false, true, false)

	// An undo takes back the marks of the last drop, and no others.
	p.must(p.Undropped(ctx, "s", false, []Change{f, g}))
	same("both are back", false, false, false, false)
	p.must(p.Dropped(ctx, "s", []Change{f}))
	record("s", f)
	p.must(p.Undropped(ctx, "s", false, []Change{f}))
	same("what was dropped before it was changed again", false, true, false, false, false)
	p.must(p.Dropped(ctx, "s", []Change{f}))
	same("again", true, true, false, false, false)
	p.must(p.Undropped(ctx, "s", false, []Change{f}))
	same("and back", false, true, false, false, false)
	for _, e := range p.executions(Filter{Session: "t"}) {
		if !e.Changes[0].Dropped {
			t.Error("an undo in one session was noted in another")
		}
	}
}
