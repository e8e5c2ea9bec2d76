//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nsrun/nsrun"
)

// commands measures what a command of a Runner costs its program, unwatched and watched, where so
// many run at once. Each writes 100 files, and waits a little, so that they really are at once.
func commands(top, numbers string) error {
	for name, value := range map[string]string{"HOME": top, "XDG_STATE_HOME": "", "XDG_DATA_HOME": "", "XDG_CACHE_HOME": ""} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	for field := range strings.SplitSeq(numbers, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			return fmt.Errorf("not a number of commands: %q", field)
		}
		for _, watched := range []bool{false, true} {
			if err := atOnce(filepath.Join(top, fmt.Sprint("p", n, watched)), n, watched); err != nil {
				return err
			}
		}
	}
	return nil
}

func atOnce(dir string, n int, watched bool) error {
	const files = 100
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	r := nsrun.NewRunner(nsrun.Config{Project: dir, After: nsrun.Discard, NoPlayground: true, Watch: watched})
	defer r.Close()
	var wg sync.WaitGroup
	var fewer, noticed atomic.Int64
	failed := make(chan error, 1)
	rounds := max(1, 100/n)
	begin, used := time.Now(), usageOf(syscall.RUSAGE_SELF)
	for range rounds {
		for range n {
			wg.Go(func() {
				command := fmt.Sprintf("i=0; while [ $i -lt %d ]; do : >$i; i=$((i+1)); done; sleep 0.5", files)
				res, err := r.Run(context.Background(), nsrun.Request{Command: command})
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
				if watched && len(res.Touched) < files {
					fewer.Add(1)
				}
				if len(res.Notices) > 0 {
					noticed.Add(1)
				}
			})
		}
		wg.Wait()
	}
	select {
	case err := <-failed:
		return err
	default:
	}
	all := time.Duration(n * rounds)
	fmt.Printf("  %4d at once, watched: %-5t %7.1f ms wall, %6.1f ms CPU of the program, each; %d were not told of all, %d have notices\n",
		n, watched, ms(time.Since(begin)/all), ms((usageOf(syscall.RUSAGE_SELF)-used)/all), fewer.Load(), noticed.Load())
	return nil
}
