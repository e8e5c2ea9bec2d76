//go:build linux

// Sessions measures sessions on a disk side by side with programs that do the same work, in turns, and prints medians.
// Started by root it measures as an ordinary user.
//
//	go run ./bench/sessions [-n RUNS] [-nsrun FILE] [-files FILES] [-other DIR] [-only LETTERS]
//
// What is measured (the letters of -only):
//
//	a  20 changed files of 100,000: changes, commit and undo, against copying those
//	   files with fsync
//	b  `nsrun run --commit -- true` in a project of 100,000 files, against one of 100
//	c  10,000 changed files: changes against find, commit and undo against cp -a and
//	   sync, over what the session wrote
//	d  what else people do with 20 changed files of 100,000: git status and git stash,
//	   rsync of a copy
//	o  a and c with sessions on another file system than the project
//
// All files are made below $TMPDIR, and removed afterwards. $TMPDIR should be on a disk, and have room for 300,000
// small files. Before each measurement, what was written is flushed.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nsrun/nsrun/bench/internal/turns"
	"github.com/nsrun/nsrun/overlay"
)

var (
	runs  = flag.Int("n", 21, "`runs` of each")
	nsrun = flag.String("nsrun", "", "the nsrun `file`; built if empty")
	files = flag.Int("files", 100_000, "how many `files` the large project has")
	other = flag.String("other", "/dev/shm", "a `directory` on another file system")
	only  = flag.String("only", "abcdo", "which measurements, as `letters`")
)

const (
	few   = 20  // changed files
	small = 100 // files of the small project
)

// many are changed files too: at most a tenth of the large project's.
var many = 10_000

func main() {
	flag.Parse()
	many = min(many, *files/10)
	if os.Getuid() == 0 {
		os.Exit(turns.AsUser())
	}
	os.Exit(measure())
}

// A bench is where all is measured: projects and sessions in one directory.
type bench struct {
	dir   string // on the disk
	large string // the project of many files; empty until it is needed
}

func measure() (status int) {
	defer turns.Failed(&status)
	if *nsrun == "" {
		turns.Check(errors.New("-nsrun is needed by an ordinary user"))
	}
	dir, err := os.MkdirTemp("", "nsrun-sessions")
	turns.Check(err)
	defer os.RemoveAll(dir)
	dir, err = filepath.EvalSymlinks(dir)
	turns.Check(err)
	fmt.Printf("medians of %d alternating runs, as uid %d, %d cores, on %s\n", *runs, os.Getuid(), runtime.NumCPU(), turns.FileSystem(dir))
	b := &bench{dir: dir}
	state := filepath.Join(dir, "state")
	for _, m := range []struct {
		letter string
		run    func()
	}{
		{"a", func() { b.fewOfMany("a", state) }},
		{"b", b.command},
		{"c", func() { b.manyChanges("c", state) }},
		{"o", b.apart},
		{"d", b.others},
	} {
		if strings.Contains(*only, m.letter) {
			m.run()
		}
	}
	return 0
}

// fill makes a project of n files in directories of a hundred.
func fill(dir string, n int) {
	for i := range n {
		p := filepath.Join(dir, name(i))
		if i%100 == 0 {
			turns.Check(os.MkdirAll(filepath.Dir(p), 0o755))
		}
		// Not all different, for git's sake.
		turns.Check(os.WriteFile(p, fmt.Appendf(nil, "%512d\n", i%1000), 0o644))
	}
}

func name(i int) string { return fmt.Sprintf("d%d/f%d", i/100, i) }

func (b *bench) project() string {
	if b.large == "" {
		b.large = filepath.Join(b.dir, "large")
		fill(b.large, *files)
	}
	return b.large
}

// session makes a session with what a shell script does in a sandbox.
func (b *bench) session(project, state, script string) *overlay.Session {
	turns.Check(os.MkdirAll(state, 0o700))
	cmd := b.nsrun(project, state, "run", "-q", "--keep", "-c", script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	turns.Check(err)
	s, err := overlay.Open(filepath.Join(state, "nsrun", "sessions"), "last")
	turns.Check(err)
	return s
}

func (b *bench) nsrun(project, state string, args ...string) *exec.Cmd {
	cmd := exec.Command(*nsrun, args...)
	cmd.Dir = project
	cmd.Env = append(os.Environ(), "HOME="+b.dir, "XDG_STATE_HOME="+state)
	return cmd
}

func changes(s *overlay.Session, want int) error {
	n := 0
	for _, err := range s.Changes() {
		if err != nil {
			return err
		}
		n++
	}
	if n != want {
		return fmt.Errorf("%d changes, not %d", n, want)
	}
	return nil
}

// fewChanges is what changes 20 files all over a large project, as a shell script.
func fewChanges() string {
	var script strings.Builder
	for i := range few {
		fmt.Fprintf(&script, "printf '%%8192s\\n' %d >%s\n", i, name(i**files/few))
	}
	return script.String()
}

func (b *bench) fewOfMany(letter, state string) {
	project := b.project()
	s := b.session(project, state, fewChanges())
	defer s.Close()
	copies := filepath.Join(b.dir, "copies")
	upper := s.Roots()[0].Upper
	r := turns.Race{Dirs: []string{b.dir, state}}
	ctx := context.Background()
	r.Rounds(*runs, func() {
		r.Time("changes", func() error { return changes(s, few) })
		r.Time("commit", func() error { return s.Commit(ctx) })
		r.Time("undo", func() error { return s.Undo(ctx, overlay.UndoOptions{}) })
		turns.Check(os.Mkdir(copies, 0o755))
		r.Time("copying with fsync", func() error {
			for i := range few {
				if err := copyFile(filepath.Join(copies, strconv.Itoa(i)), filepath.Join(upper, name(i**files/few))); err != nil {
					return err
				}
			}
			return nil
		})
		turns.Check(os.RemoveAll(copies))
	})
	turns.Check(s.Discard())
	fmt.Printf("%s: %d changed files of %d, sessions on %s, the project on %s\n", letter, few, *files, turns.FileSystem(state), turns.FileSystem(b.dir))
	r.Show("changes", "", "2 ms")
	r.Show("commit", "copying with fsync", "1.3")
	r.Show("undo", "copying with fsync", "1.3")
	r.Show("copying with fsync", "", "")
}

// copyFile copies a file, and waits until it is on disk.
func copyFile(to, from string) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, dst.Close()) }()
	if _, err := io.Copy(dst, src); err != nil {
		return err
	}
	return dst.Sync()
}

func (b *bench) command() {
	large := b.project()
	tiny := filepath.Join(b.dir, "tiny")
	fill(tiny, small)
	state := filepath.Join(b.dir, "state-b")
	turns.Check(os.MkdirAll(state, 0o700))
	in := func(n int) string { return fmt.Sprintf("in a project of %d", n) }
	r := turns.Race{Dirs: []string{b.dir}}
	r.Rounds(5**runs, func() {
		r.Time(in(*files), b.nsrun(large, state, "run", "--commit", "--", "true").Run)
		r.Time(in(small), b.nsrun(tiny, state, "run", "--commit", "--", "true").Run)
	})
	fmt.Printf("b: nsrun run --commit -- true (%d runs)\n", 5**runs)
	r.Show(in(*files), in(small), "1.2")
	r.Show(in(small), "", "")
}

func (b *bench) manyChanges(letter, state string) {
	project := filepath.Join(b.dir, "project-"+letter)
	fill(project, many)
	// Half of them are modified, half are new.
	s := b.session(project, state, `d=0
while [ $d -lt 100 ]; do
	f=0
	while [ $f -lt 50 ]; do
		printf '%1023s\n' $f >d$d/f$((d * 100 + f))
		printf '%1023s\n' $f >d$d/new$f
		f=$((f + 1))
	done
	d=$((d + 1))
done`)
	defer s.Close()
	upper, copied := s.Roots()[0].Upper, filepath.Join(b.dir, "copied")
	r := turns.Race{Dirs: []string{b.dir, state}}
	ctx := context.Background()
	// The kernel's caches are as the command left them, for both.
	r.Rounds(*runs, func() {
		look := []func(){
			func() { r.Time("changes", func() error { return changes(s, many) }) },
			func() { r.Time("find", exec.Command("find", upper, "-printf", "%y %s %p\n").Run) },
		}
		if r.Count%2 == 1 {
			slices.Reverse(look)
		}
		for _, f := range look {
			f()
		}
	})
	n := max(3, *runs/2)
	r.Rounds(n, func() {
		r.Time("commit", func() error { return s.Commit(ctx) })
		r.Time("undo", func() error { return s.Undo(ctx, overlay.UndoOptions{}) })
		r.Time("cp -a and sync -f", func() error {
			if err := exec.Command("cp", "-a", upper, copied).Run(); err != nil {
				return err
			}
			return exec.Command("sync", "-f", copied).Run()
		})
		turns.Check(os.RemoveAll(copied))
	})
	turns.Check(s.Discard())
	turns.Check(os.RemoveAll(project))
	fmt.Printf("%s: %d changed files, sessions on %s, the project on %s (%d looks, %d commits)\n", letter, many, turns.FileSystem(state), turns.FileSystem(b.dir), *runs, n)
	r.Show("changes", "find", "1.5")
	r.Show("find", "", "")
	r.Show("commit", "cp -a and sync -f", "1.5")
	r.Show("undo", "cp -a and sync -f", "1.5")
	r.Show("cp -a and sync -f", "", "")
}

// apart is a and c with sessions on another file system: what is copied into the
// project is copied across, and so is the backup.
func (b *bench) apart() {
	state, err := os.MkdirTemp(*other, "nsrun-sessions")
	if err != nil {
		fmt.Printf("o: not measured: %v\n", err)
		return
	}
	defer os.RemoveAll(state)
	b.fewOfMany("o", state)
	b.manyChanges("o", state)
}

// others is what people do without sessions.
func (b *bench) others() {
	project := b.project()
	fmt.Printf("d: %d changed files of %d, without sessions\n", few, *files)
	change := func(dir string) error {
		cmd := exec.Command("/bin/sh", "-c", fewChanges())
		cmd.Dir = dir
		return cmd.Run()
	}
	r := turns.Race{Dirs: []string{b.dir}}
	if _, err := exec.LookPath("git"); err != nil {
		fmt.Println("  git is missing: not measured")
	} else {
		git := func(args ...string) func() error {
			cmd := exec.Command("git", append([]string{"-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0", "-c", "maintenance.auto=false"}, args...)...)
			cmd.Dir = project
			return cmd.Run
		}
		for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-qm", "all"}} {
			turns.Check(git(args...)())
		}
		r.Rounds(*runs, func() {
			turns.Check(change(project))
			r.Time("git status", git("status", "--porcelain"))
			r.Time("git stash", git("stash", "-q"))
			r.Time("git stash pop", git("stash", "pop", "-q"))
			turns.Check(git("checkout", "-q", "--", ".")())
		})
		turns.Check(os.RemoveAll(filepath.Join(project, ".git")))
		for _, name := range []string{"git status", "git stash", "git stash pop"} {
			r.Show(name, "", "")
		}
	}
	if _, err := exec.LookPath("rsync"); err != nil {
		fmt.Println("  rsync is missing (the package rsync): not measured")
		return
	}
	copied := filepath.Join(b.dir, "rsync")
	begin := time.Now()
	turns.Check(exec.Command("cp", "-a", project, copied).Run())
	turns.Once("cp -a, the copy for rsync", time.Since(begin))
	r.Rounds(*runs, func() {
		turns.Check(change(copied))
		r.Time("rsync -a --delete", exec.Command("rsync", "-a", "--delete", copied+"/", project+"/").Run)
		// The next round's are of another size again.
		turns.Check(exec.Command("/bin/sh", "-c", "cd "+project+" && "+strings.ReplaceAll(fewChanges(), "8192", "512")).Run())
	})
	r.Show("rsync -a --delete", "", "")
}
