//go:build linux

package nsrun_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay"
)

// What a command wrote is kept, if it is given up just when it has begun: before its start was
// reported, too.
func TestGivenUpWhenItBegins(t *testing.T) {
	dir := place(t, "f: 1")
	state := filepath.Join(dir, "sessions")
	outside := filepath.Join(dir, "outside")
	testenv.Tree(t, dir, "outside/", "sessions/")
	done := filepath.Join(outside, "done")
	r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Commit, StateDir: state, Shared: []nsrun.Folder{{Path: outside, Mode: nsrun.Direct}}})
	wrote, early := 0, 0
	patience := 1_000_000
	for range testenv.Rounds(30, 200) {
		ctx, cancel := context.WithCancel(t.Context())
		seen := make(chan bool)
		go func() {
			defer close(seen)
			for n := range patience { // busy, so that the report is looked at late
				if n%8 == 7 && unix.Access(done, unix.F_OK) == nil {
					break
				}
			}
			cancel()
		}()
		res, err := r.Run(ctx, nsrun.Request{Command: "echo 1 >new; mkdir " + done + "; exec sleep 100"})
		<-seen
		var kept []string
		for s, err := range overlay.List(state) {
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, s.ID)
		}
		for _, id := range kept {
			s, err := overlay.Open(state, id)
			if err == nil {
				err = s.Remove()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if os.Remove(done) != nil { // it may have come to the file
			if err == nil {
				t.Fatal("the command did not finish, but Run succeeded")
			}
			patience *= 2
			continue
		}
		wrote++
		if !res.Started {
			early++
		}
		if err == nil || len(kept) != 1 || res.Session != kept[0] || res.State != overlay.Kept {
			t.Fatalf("the command wrote, but the sessions are %q; %v, %+v", kept, err, res)
		}
	}
	if wrote == 0 {
		t.Error("the command never started to write")
	}
	t.Logf("%d wrote, %d of them before it was reported that they were started", wrote, early)
}
