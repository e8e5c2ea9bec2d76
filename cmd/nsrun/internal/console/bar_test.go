//go:build linux

package console

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/nsrun/nsrun/overlay"
)

func TestBar(t *testing.T) {
	for _, c := range []struct {
		p       overlay.Progress
		columns int
		want    string
	}{
		{overlay.Progress{}, 80, "nsrun: committing [....................] 0 of 0, 0B"},
		{overlay.Progress{Done: 3, Total: 6, Bytes: 1 << 20}, 80, "nsrun: committing [##########..........] 3 of 6, 1.0M"},
		{overlay.Progress{Done: 7, Total: 6}, 80, "nsrun: committing [####################] 6 of 6, 0B"},
		{overlay.Progress{Done: 7, Bytes: 1 << 20}, 80, "nsrun: committing: 7 files, 1.0M"},
		{overlay.Progress{Done: -1, Total: 6}, 12, "nsrun: commi"},
		{overlay.Progress{}, -1, ""},
	} {
		if got := barText("committing", c.p, c.columns); got != c.want {
			t.Errorf("%+v: %q, want %q", c.p, got, c.want)
		}
	}
	// Nothing is drawn at first, and what was drawn is erased.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	stderr := os.Stderr
	os.Stderr = w
	b := &bar{what: "committing", began: time.Now().Add(time.Hour)}
	b.Progress()(overlay.Progress{Done: 1, Total: 2})
	b.Then("not shown")
	b.End()
	b.began = time.Now().Add(-time.Minute)
	b.Progress()(overlay.Progress{Done: 1, Total: 2})
	b.drawn = time.Now().Add(time.Hour)
	b.Progress()(overlay.Progress{Done: 2, Total: 2}) // not yet again
	b.Then("tidying")
	first := "\r" + barText("committing", overlay.Progress{Done: 1, Total: 2}, 79) + "\x1b[K\rnsrun: tidying\x1b[K"
	text := make([]byte, len(first))
	if _, err := io.ReadFull(r, text); err != nil || string(text) != first {
		t.Errorf("%q, want %q, %v", text, first, err)
	}
	b.End()
	os.Stderr = stderr
	w.Close()
	got, err := io.ReadAll(r)
	const want = "\r\x1b[K"
	if err != nil || string(got) != want {
		t.Errorf("%q, want %q, %v", got, want, err)
	}
	b = nil
	if b.Progress() != nil {
		t.Error("the nil bar shows something")
	}
	b.End()
}

func TestSizeText(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0B", 1023: "1023B", 1024: "1.0K", 10180: "9.9K", 10200: "10K", 1<<20 - 1: "1.0M", 1000 << 10: "1.0M", 999 << 10: "999K",
		5 << 30: "5.0G", 1<<63 - 1: "8.0E",
	} {
		if got := Size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
