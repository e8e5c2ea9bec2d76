//go:build linux

// Runner measures nsrun.Runner.Run("true") with an overlay over a project. It compares it with exec.Command("true"), in
// turns, and prints medians and 10th percentiles. Started by root it measures as root and once more as an ordinary
// user.
//
//	go run ./bench/runner [-n RUNS]
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/project"
)

var (
	runs = flag.Int("n", 300, "`runs` of each")
	in   = flag.String("in", "", "for internal use: measure in this `directory`")
)

const nobody = 65534

// promised are the ways that are promised something.
var promised = []string{"overlay, registry, watcher", "the same, one session"}

// way is one way to run the command.
type way struct {
	name string
	run  func() error
}

func main() {
	flag.Parse()
	if *in != "" {
		check(measure(*in))
		return
	}
	dir, err := os.MkdirTemp("/var/tmp", "nsrun-runner-") // not on a tmpfs, where there is one on /tmp
	check(err)
	err = measure(dir)
	if err == nil && os.Getuid() == 0 {
		err = asUser(dir)
	}
	_ = os.RemoveAll(dir)
	check(err)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		os.Exit(1)
	}
}

// measure makes a project and a home directory in dir and measures.
func measure(top string) error {
	home, dir := filepath.Join(top, "home"+strconv.Itoa(os.Getuid())), filepath.Join(top, "p"+strconv.Itoa(os.Getuid()))
	for _, d := range []string{home, filepath.Join(home, ".cache"), dir} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	for name, value := range map[string]string{"HOME": home, "XDG_STATE_HOME": "", "XDG_DATA_HOME": "", "XDG_CACHE_HOME": ""} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	true1, err := exec.LookPath("true")
	if err != nil {
		return err
	}
	registry := project.Open(project.Options{})
	defer registry.Close()
	recorder := nsrun.Registry{Registry: registry}
	ways := []way{{"exec.Command", func() error { return exec.Command(true1).Run() }}}
	for _, w := range []struct {
		name string
		c    nsrun.Config
	}{
		{promised[0], nsrun.Config{Project: dir, After: nsrun.Commit, Recorder: recorder, Watch: true}},
		{promised[1], nsrun.Config{Project: dir, Recorder: recorder, Watch: true}},
		{"overlay, registry", nsrun.Config{Project: dir, After: nsrun.Commit, Recorder: recorder}},
		{"overlay", nsrun.Config{Project: dir, After: nsrun.Commit}},
		{"overlay, no playground", nsrun.Config{Project: dir, After: nsrun.Commit, NoPlayground: true}},
		{"direct", nsrun.Config{Project: dir, Mode: nsrun.Direct}},
	} {
		r := nsrun.NewRunner(w.c)
		defer r.Close()
		ways = append(ways, way{w.name, func() error {
			_, err := r.Run(context.Background(), nsrun.Request{Args: []string{true1}})
			return err
		}})
	}
	times := make([][]time.Duration, len(ways))
	warm := min(*runs, 10)
	for i := range *runs + warm {
		for _, k := range rand.Perm(len(ways)) {
			began := time.Now()
			if err := ways[k].run(); err != nil {
				return fmt.Errorf("%s: %w", ways[k].name, err)
			}
			if i >= warm {
				times[k] = append(times[k], time.Since(began))
			}
		}
	}
	// Where others use the processors too, the tenth says more than the median.
	fmt.Printf("medians, and the fastest tenth, of %d alternating runs of true, as uid %d\n", *runs, os.Getuid())
	var plain, plainFast time.Duration
	for k, w := range ways {
		slices.Sort(times[k])
		median, fast := times[k][len(times[k])/2], times[k][len(times[k])/10]
		if k == 0 {
			plain, plainFast = median, fast
		}
		promise := ""
		if slices.Contains(promised, w.name) {
			promise = "   (at most +3.5 ms)"
		}
		fmt.Printf("  %-28s %6.2f ms  %+6.2f ms    %6.2f ms  %+6.2f ms%s\n", w.name, ms(median), ms(median-plain), ms(fast), ms(fast-plainFast), promise)
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// asUser runs this program again as somebody who has nothing but dir.
func asUser(dir string) error {
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	self, place := filepath.Join(dir, "runner"), filepath.Join(dir, "user")
	if err := os.WriteFile(self, b, 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(place, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chown(place, nobody, nobody); err != nil {
		return err
	}
	cmd := exec.Command(self, "-n", strconv.Itoa(*runs), "-in", place)
	cmd.Dir, cmd.Env = place, []string{"PATH=" + os.Getenv("PATH")}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd.Run()
}
