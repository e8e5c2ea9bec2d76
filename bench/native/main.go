//go:build linux

// Native measures what a sandbox costs for everyday commands of developers: it runs each natively and in a sandbox, in
// turns, and prints medians. Started by root it measures as an ordinary user.
//
//	go run ./bench/native [-n RUNS] [-nsrun FILE] [-files FILES] [-only NAMES]
//
// A command runs natively; in a session, which is kept, as by default; with --direct, in which git may write; and for
// the second time in a session on a host whose caches are empty, so that it uses the project's own caches. Of go, npm,
// pytest, cmake and git, those that are missing are not measured. All files are made below $TMPDIR and removed
// afterwards. If sandboxes have a private directory there, as in /tmp, a directory for caches is used instead. The
// directory should be on a disk and have room for 300,000 small files. Before each measurement, what was written is
// flushed. Do not start it with a real-time priority: go would wait for threads that then do not run.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/nsrun/nsrun/bench/internal/turns"
)

var (
	runs  = flag.Int("n", 11, "`runs` of each")
	nsrun = flag.String("nsrun", "", "the nsrun `file`; built if empty")
	files = flag.Int("files", 100_000, "how many `files` the largest measurement has")
	only  = flag.String("only", "", "which measurements, as `names`; all if empty")
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == "storm" {
		if err := storm(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, "storm:", err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	dir, err := place()
	if err == nil && os.Getuid() == 0 {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "native:", err)
		os.Exit(1)
	}
	if os.Getuid() == 0 {
		os.Exit(turns.AsUser())
	}
	os.Exit(measure(dir))
}

// A way is one to run a command.
type way struct {
	name  string
	flags []string // of nsrun run; none: natively
	home  string
}

// A bench is where all is measured.
type bench struct {
	dir  string
	ways []way
}

func measure(place string) (status int) {
	defer turns.Failed(&status)
	if *nsrun == "" {
		turns.Check(errors.New("-nsrun is needed by an ordinary user"))
	}
	dir, err := os.MkdirTemp(place, "nsrun-native")
	turns.Check(err)
	defer os.RemoveAll(dir)
	dir, err = filepath.EvalSymlinks(dir)
	turns.Check(err)
	b := &bench{dir: dir, ways: []way{
		{name: "native", home: "home"},
		{"default", []string{"--keep"}, "home"},
		{"direct", []string{"--direct", "--preset", "git"}, "home"},
		{"empty host cache", []string{"--keep"}, "other"},
	}}
	for _, w := range b.ways {
		turns.Check(os.MkdirAll(filepath.Join(dir, w.home, ".cache"), 0o755))
	}
	fmt.Printf("medians of %d alternating runs, as uid %d, %d cores, on %s\n", *runs, os.Getuid(), runtime.NumCPU(), turns.FileSystem(dir))
	for i := range tasks {
		if t := &tasks[i]; *only == "" || strings.Contains(","+*only+",", ","+t.name+",") {
			b.measure(t)
		}
	}
	return 0
}

// measure measures one task and prints the result.
func (b *bench) measure(t *task) {
	if _, err := exec.LookPath(t.program); err != nil {
		fmt.Printf("%s: %s is missing: not measured\n", t.name, t.program)
		return
	}
	project := filepath.Join(b.dir, "p")
	turns.Check(os.Mkdir(project, 0o755))
	defer os.RemoveAll(project)
	tool, err := os.ReadFile("/proc/self/exe")
	turns.Check(err)
	turns.Check(os.WriteFile(filepath.Join(project, "tool"), tool, 0o755))
	ways := b.ways
	if t.commit {
		ways = []way{ways[0], {"through to the commit", []string{"--commit"}, "home"}}
	}
	t.make(b, project)
	r := turns.Race{Dirs: []string{b.dir}}
	r.Rounds(*runs, func() {
		for i := range ways {
			// Each is the first one in its turn: what came before is not the same for all.
			w := ways[(i+r.Count)%len(ways)]
			script := fmt.Sprintf("run=%d.%d files=%d\n%s", r.Count, i, t.files(), t.script)
			r.Time(w.name, func() error { return b.command(project, w, append(w.flags, "-c", script)...) })
			if t.after != "" {
				b.prepare(project, t.after)
			}
			turns.Check(os.RemoveAll(filepath.Join(b.state(w), "nsrun", "sessions")))
		}
	})
	what := t.what
	if t.unit > 0 {
		what = fmt.Sprintf(what, t.files())
	}
	fmt.Printf("%s: %s\n", t.name, what)
	r.Show("native", "", "")
	for _, w := range ways[1:] {
		r.Show(w.name, "native", t.most)
	}
}

func (b *bench) command(project string, w way, args ...string) error {
	cmd := b.nsrun(project, w, append([]string{"run", "-q"}, args...)...)
	if len(w.flags) == 0 {
		sh := exec.Command("/bin/sh", "-c", args[1])
		sh.Dir, sh.Env = cmd.Dir, cmd.Env
		cmd = sh
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", w.name, err, out)
	}
	return nil
}

func (b *bench) nsrun(project string, w way, args ...string) *exec.Cmd {
	cmd := exec.Command(*nsrun, args...)
	cmd.Dir = project
	home := filepath.Join(b.dir, w.home)
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+b.state(w), "GOTOOLCHAIN=local", "GOPROXY=off")
	return cmd
}

func (b *bench) state(w way) string { return filepath.Join(b.dir, "state-"+w.home) }
