//go:build linux

package fanotify

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// BenchmarkOpen is what a watcher costs that sees nothing, until it is closed.
func BenchmarkOpen(b *testing.B) {
	for _, e := range []Engine{Fanotify, Inotify} {
		b.Run(e.String(), func(b *testing.B) {
			if e == Fanotify {
				needMarks(b)
			}
			dir := testenv.Dir(b)
			for b.Loop() {
				w, err := New(Options{Roots: []string{dir}, Engine: e})
				if err != nil {
					b.Fatal(err)
				}
				w.Stop()
				for _, err := range w.Events() {
					if err != nil {
						b.Fatal(err)
					}
				}
				// Close leaves this to the kernel; here the next one waits for it, as
				// an agent's commands take longer.
				b.StopTimer()
				w.closed = true
				w.eng.close()
				b.StartTimer()
			}
		})
	}
}

// BenchmarkClose is what closing takes, which nobody waits for.
func BenchmarkClose(b *testing.B) {
	for _, e := range []Engine{Fanotify, Inotify} {
		b.Run(e.String(), func(b *testing.B) {
			if e == Fanotify {
				needMarks(b)
			}
			dir := testenv.Dir(b)
			for b.Loop() {
				b.StopTimer()
				w, err := New(Options{Roots: []string{dir}, Engine: e})
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				w.closed = true
				w.eng.close()
			}
		})
	}
}

// BenchmarkStorm is the storm with each engine, and without.
func BenchmarkStorm(b *testing.B) {
	for _, e := range []Engine{Auto, Fanotify, Inotify} {
		name := e.String()
		if e == Auto {
			name = "unwatched"
		}
		b.Run(name, func(b *testing.B) {
			if e == Fanotify {
				needMarks(b)
			}
			for b.Loop() {
				b.StopTimer()
				dir := filepath.Join(testenv.Dir(b), "storm")
				if err := os.Mkdir(dir, 0o755); err != nil {
					b.Fatal(err)
				}
				run := startStorm(b, dir, 100, 10_000)
				done := func() (int, int) { return 0, 0 }
				stop := func() {}
				if e != Auto {
					w, err := New(Options{Roots: []string{dir}, Engine: e})
					if err != nil {
						b.Fatal(err)
					}
					stop = w.Stop
					defer w.Close()
					done = collect(b, w, nil)
				}
				b.StartTimer()
				run()
				stop()
				done()
			}
		})
	}
}
