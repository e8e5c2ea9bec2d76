//go:build linux

// Package turns measures things in turns and prints medians, as an ordinary user, for the benchmarks. It imports
// mounts, to print which file system is measured.
package turns

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/mounts"
)

// failure is what Check panics with, so that directories are removed.
type failure struct{ err error }

// Check ends the benchmark if there is an error.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Failed is deferred by the function whose status the program ends with. It prints the error of a Check, and makes the
// status 1.
func Failed(status *int) {
	switch r := recover().(type) {
	case nil:
	case failure:
		fmt.Fprintln(os.Stderr, name()+":", r.err)
		*status = 1
	default:
		panic(r)
	}
}

func FileSystem(path string) string {
	table, err := mounts.ReadMountinfo()
	Check(err)
	best := mounts.Info{}
	for _, m := range table {
		if (path == m.Target || strings.HasPrefix(path, strings.TrimSuffix(m.Target, "/")+"/")) && len(m.Target) >= len(best.Target) {
			best = m
		}
	}
	return cmp.Or(best.FSType, "an unknown file system")
}

// A Race is several things that are done in turns.
type Race struct {
	Dirs  []string // whose file systems are flushed before each
	Count int      // of the round
	times map[string][]time.Duration
	cold  bool // what is measured now only warms caches
}

// Rounds calls one for each run, and a few times before.
func (r *Race) Rounds(n int, one func()) {
	if r.times == nil {
		r.times = map[string][]time.Duration{}
	}
	for i := range n + min(n, 3) {
		r.cold, r.Count = i < min(n, 3), i
		one()
	}
}

func (r *Race) Time(name string, f func() error) {
	for _, dir := range r.Dirs {
		Check(flush(dir))
	}
	begin := time.Now()
	err := f()
	d := time.Since(begin)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	Check(err)
	if !r.cold {
		r.times[name] = append(r.times[name], d)
	}
}

func flush(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}

func quantile[T cmp.Ordered](t []T, percent int) T {
	t = slices.Sorted(slices.Values(t))
	return t[min(len(t)-1, len(t)*percent/100)]
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// Show prints what was measured, and as a ratio to base if there is one, and what it is promised to be at most. The
// ratio is the median of the rounds' ratios, so that what else the machine does falls on both.
func (r *Race) Show(name, base, promise string) {
	t := r.times[name]
	fmt.Printf("  %-34s %9.3f ms   p95 %9.3f", name, ms(quantile(t, 50)), ms(quantile(t, 95)))
	if base != "" {
		ratios := make([]float64, len(t))
		for i, d := range r.times[base][:len(t)] {
			ratios[i] = float64(t[i]) / float64(d)
		}
		fmt.Printf("   %6.3f of %s", quantile(ratios, 50), base)
	}
	if promise != "" {
		fmt.Printf(" (at most %s)", promise)
	}
	fmt.Println()
}

// Once prints what was measured once.
func Once(name string, d time.Duration) { fmt.Printf("  %-34s %9.3f ms   (once)\n", name, ms(d)) }
