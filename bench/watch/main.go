//go:build linux

// Watch measures how much watching slows down the processes that write: 4 of them create, write, rename and remove
// files in new nested directories, unwatched and watched by each engine, in turns. It prints medians.
//
//	go run ./bench/watch [-n RUNS] [-dirs DIRS] [-files FILES] [-dir DIR]
//	go run ./bench/watch -commands 1,100,500 [-dir DIR]
//
// With -commands it measures the time of a command of a Runner, unwatched and watched, while that many run at once.
//
// Root measures both engines, others inotify alone. All files are made below $TMPDIR, and removed afterwards. Before
// each run, what was written is flushed.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/fanotify"
	"github.com/nsrun/nsrun/internal/storm"
)

var (
	runs  = flag.Int("n", 11, "`runs` of each")
	dirs  = flag.Int("dirs", 1000, "how many `directories` are made")
	files = flag.Int("files", 100_000, "how many `files` are made")
	many  = flag.String("commands", "", "how many commands run at once: `numbers` separated by commas")
	where = flag.String("dir", "", "a `directory` to do it in; empty: $TMPDIR")
)

func main() {
	storm.Helper()
	flag.Parse()
	if err := measure(); err != nil {
		fmt.Fprintln(os.Stderr, "watch:", err)
		os.Exit(1)
	}
}

// A run is what one storm took.
type run struct {
	wall, cpu time.Duration // of all, the watcher included
	own       time.Duration // the watcher's part of cpu
	after     time.Duration // from the end of the storm to the last event
	events    int
	overflows int
}

func measure() error {
	top, err := os.MkdirTemp(*where, "nsrun-watch")
	if err != nil {
		return err
	}
	defer os.RemoveAll(top)
	if *many != "" {
		return commands(top, *many)
	}
	engines := []fanotify.Engine{fanotify.Fanotify, fanotify.Inotify}
	if os.Getuid() != 0 {
		engines = engines[1:]
	}
	ways := append([]fanotify.Engine{fanotify.Auto}, engines...) // Auto: nobody watches
	took := make(map[fanotify.Engine][]run)
	fmt.Printf("medians of %d alternating runs, %d files in %d directories, %d processes, as uid %d, %d cores\n",
		*runs, *files, *dirs, storm.Processes, os.Getuid(), runtime.NumCPU())
	for i := range *runs + 1 {
		for j := range ways {
			way := ways[(i+j)%len(ways)] // so that none is always behind the same
			r, err := once(top, way)
			if err != nil {
				return err
			}
			if i > 0 { // the first warms caches
				took[way] = append(took[way], r)
			}
		}
	}
	base := took[fanotify.Auto]
	fmt.Printf("  %-10s %9.0f ms wall %9.0f ms CPU\n", "unwatched", ms(median(base, wall)), ms(median(base, cpu)))
	for _, e := range engines {
		t := took[e]
		var events, overflows int
		for _, r := range t {
			events, overflows = events+r.events, overflows+r.overflows
		}
		fmt.Printf("  %-10s %9.0f ms wall %9.0f ms CPU   %.3f of unwatched (at most 1.15), of its CPU %.3f (the watcher's own: %.0f ms); last event after %.1f ms; %d events, %d overflows a run\n",
			e, ms(median(t, wall)), ms(median(t, cpu)), ratio(t, base, wall), ratio(t, base, cpu), ms(median(t, own)), ms(median(t, after)), events/len(t), overflows/len(t))
	}
	return nil
}

func wall(r run) time.Duration  { return r.wall }
func cpu(r run) time.Duration   { return r.cpu }
func own(r run) time.Duration   { return r.own }
func after(r run) time.Duration { return r.after }

func median(list []run, of func(run) time.Duration) time.Duration {
	list = slices.SortedFunc(slices.Values(list), func(a, b run) int { return cmp.Compare(of(a), of(b)) })
	return of(list[len(list)/2])
}

func ratio(a, b []run, of func(run) time.Duration) float64 {
	return float64(median(a, of)) / float64(median(b, of))
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// once is one storm. It is over when the last event is there.
func once(top string, way fanotify.Engine) (r run, err error) {
	dir := filepath.Join(top, "storm")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := storm.Start(dir, *dirs, *files)
	if err != nil {
		return r, err
	}
	stop, done := func() {}, make(chan error, 1)
	if way != fanotify.Auto {
		w, err := fanotify.New(fanotify.Options{Roots: []string{dir}, Engine: way})
		if err != nil {
			return r, errors.Join(err, s.Run())
		}
		defer w.Close()
		stop = w.Stop
		go func() {
			defer close(done)
			for _, err := range w.Events() {
				switch {
				case err == nil:
					r.events++
				case errors.Is(err, fanotify.ErrOverflow):
					r.overflows++
				default:
					done <- err
					return
				}
			}
		}()
	} else {
		close(done)
	}
	unix.Sync()
	used, mine, begin := usage(), usageOf(syscall.RUSAGE_SELF), time.Now()
	err = s.Run()
	stormed := time.Now()
	stop()
	err = errors.Join(err, <-done)
	r.wall, r.after, r.cpu = time.Since(begin), time.Since(stormed), usage()-used
	r.own = usageOf(syscall.RUSAGE_SELF) - mine
	return r, err
}

// usage is the CPU time of this process and of those that it has waited for.
func usage() time.Duration { return usageOf(syscall.RUSAGE_SELF) + usageOf(syscall.RUSAGE_CHILDREN) }

func usageOf(who int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
