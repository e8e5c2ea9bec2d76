//go:build linux

package nsrun_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

func init() { insides["commits"] = commitsInside }

// manyCaches are the build caches in the home directory of TestManyCommits.
var manyCaches = []string{".cache", "go/pkg", ".npm", ".cargo", ".m2/repository"}

// held is how many descriptors, mounts and children this process has.
func held() (descriptors, mounts, children int) {
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && !strings.HasPrefix(to, "anon_inode:[event") {
			descriptors++
		}
	}
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, task := range tasks {
		list, _ := os.ReadFile(task)
		children += len(strings.Fields(string(list)))
	}
	return descriptors, len(testenv.Mounts()), children
}

// commitsInside is a process of TestManyCommits: the directory, its number, goroutines, commits of each.
func commitsInside(args []string) int {
	dir, process := args[0], args[1]
	goroutines, _ := strconv.Atoi(args[2])
	commits, _ := strconv.Atoi(args[3])
	descriptors, mounts, _ := held()
	r := nsrun.NewRunner(nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Commit, NoPlayground: true})
	var wg sync.WaitGroup
	errs := make([]error, goroutines)
	if !features.Has(features.Overlay) {
		manyCaches = nil // nobody can write to them
	}
	bad := func(n nsrun.Notice) bool { return n.Kind != nsrun.NoticeOutput } // that depends on how busy the machine is
	for g := range goroutines {
		wg.Go(func() {
			for i := range commits {
				command := fmt.Sprintf("echo %d >w%s/%d; for c in %s; do : >~/$c/%d-%d; done", i, process, g, strings.Join(manyCaches, " "), g, i)
				res, err := r.Run(context.Background(), nsrun.Request{Command: command})
				if err == nil && (res.ExitCode != 0 || res.State != overlay.Committed || slices.ContainsFunc(res.Notices, bad) || strings.Contains(res.String(), "ERROR")) {
					err = fmt.Errorf("%s: %s, %q", res, res.State, res.Notices)
				}
				if err != nil {
					errs[g] = fmt.Errorf("commit %d of %d: %w", i, g, err)
					return
				}
			}
		})
	}
	wg.Wait()
	err := errors.Join(append(errs, r.Close())...)
	nsexec.Shutdown()
	testenv.Poll(testenv.Patience, func() bool {
		d, m, c := held()
		return d <= descriptors && m == mounts && c == 0
	})
	if d, m, c := held(); d > descriptors || m != mounts || c > 0 {
		err = errors.Join(err, fmt.Errorf("left: %d descriptors, there were %d; %d mounts, there were %d; %d children", d, descriptors, m, mounts, c))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestManyCommits: many processes with many goroutines commit at once what commands change, which write to caches in
// the home directory as well, while somebody lists, recovers and cleans: no error, nothing lost, nothing left. With
// NSRUN_LONG there are 20,000 commits.
func TestManyCommits(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	const processes, goroutines = 4, 32
	commits := 1
	if os.Getenv("NSRUN_LONG") != "" {
		commits = 157 // 20,096 in all
	}
	dir := place(t)
	for _, c := range manyCaches {
		testenv.Tree(t, dir, "home/"+c+"/")
	}
	for p := range processes {
		testenv.Tree(t, dir, fmt.Sprintf("p/w%d/", p))
	}
	began := time.Now()
	done := make(chan error)
	for p := range processes {
		cmd := exec.Command("/proc/self/exe", dir, strconv.Itoa(p), strconv.Itoa(goroutines), strconv.Itoa(commits))
		cmd.Env = append(os.Environ(), insideEnv+"=commits")
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			err := cmd.Wait()
			if err != nil {
				err = fmt.Errorf("process %d: %w\n%s", p, err, out.String())
			}
			done <- err
		}()
	}
	removed := 0
	clean := func() {
		for r, err := range overlay.Recover("") {
			t.Errorf("nothing was interrupted: %+v, %v", r, err)
		}
		for in, err := range overlay.List("") {
			if err != nil || in.Interrupted {
				t.Errorf("%+v, %v", in, err)
			}
		}
		for c, err := range overlay.Clean("", overlay.CleanOptions{Ended: -1}) {
			if err != nil || c.State != overlay.Committed {
				t.Errorf("%+v, %v", c, err)
			}
			removed++
		}
	}
	for left := processes; left > 0; {
		select {
		case err := <-done:
			left--
			if err != nil {
				t.Error(err)
			}
		case <-time.After(100 * time.Millisecond): // the processors are for them
			clean()
		}
	}
	clean()
	t.Logf("%d commits in %s", removed, time.Since(began).Round(time.Second))
	if want := processes * goroutines * commits; removed != want {
		t.Errorf("%d sessions were committed, not %d", removed, want)
	}
	for p := range processes {
		for g := range goroutines {
			if got, want := content(dir, "p", fmt.Sprintf("w%d", p), strconv.Itoa(g)), fmt.Sprintln(commits-1); got != want {
				t.Errorf("w%d/%d: %q", p, g, got)
			}
		}
	}
	for _, c := range manyCaches {
		if names, err := os.ReadDir(filepath.Join(dir, "home", c)); err != nil || len(names) > 0 {
			t.Errorf("%s: %v, %v", c, names, err)
		}
	}
	sessions, err := overlay.DefaultDir()
	if err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(sessions)
	if err != nil {
		t.Error(err)
	}
	for _, e := range left {
		inside, _ := os.ReadDir(filepath.Join(sessions, e.Name()))
		if e.Name() != "cleaned" && len(inside) > 0 || strings.HasPrefix(e.Name(), ".") {
			t.Errorf("left in the state directory: %s %v", e.Name(), inside)
		}
	}
}
