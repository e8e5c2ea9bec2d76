//go:build linux

package tools

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// task is something that developers do.
type task struct {
	name  string
	needs string // programs, with the names of file packages
	flags string // of nsrun run, besides --commit
	who   string // "root" or "user"; empty: both
	slow  bool   // for make test-tools
	setup string // makes the project, natively
	run   string // is compared
	then  string // is run natively afterwards, on what came of both
	// loose says that what is written differs each time: of files only names are compared.
	loose bool
	// differs says that the sandbox is meant to behave otherwise, and why. It is the output in the sandbox; the
	// task's "then" is not compared.
	differs string
	// session says that root's command has the rights for the task only in a session, with idmapped mounts.
	session bool
}

// tasks are all of them, by their subjects.
var tasks = slices.Concat(fileTasks, metadataTasks, gitTasks, buildTasks, languageTasks, processTasks, archiveTasks, kernelTasks, serverTasks, toolchainTasks, workflowTasks, everydayTasks, oddTasks, seldomTasks, ownerTasks, furtherTasks)

//go:embed packages
var packages string

func TestMain(m *testing.M) {
	testenv.MainWithPrograms(m, func(dir string) error {
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir, "github.com/nsrun/nsrun/cmd/nsrun")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", build.Args, err, out)
		}
		return nil
	})
}

// TestTable: names are there once, and each program has a package.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	quick := 0
	for _, k := range tasks {
		if seen[k.name] {
			t.Errorf("%s: twice", k.name)
		}
		seen[k.name] = true
		if !k.slow {
			quick++
		}
		for program := range strings.FieldsSeq(k.needs) {
			if packageOf(program) == "" {
				t.Errorf("%s: no package has %s", k.name, program)
			}
		}
	}
	for name := range apart {
		if !seen[name] {
			t.Errorf("%s is listed in apart, but is no task", name)
		}
	}
	if len(tasks) < 120 || quick < 60 {
		t.Errorf("%d tasks, %d of them quick: want 120 and 60", len(tasks), quick)
	}
}

func packageOf(program string) string {
	for line := range strings.Lines(packages) {
		if name, pkg, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == program && name != "#" {
			return pkg
		}
	}
	return ""
}

// TestTask runs them.
func TestTask(t *testing.T) {
	if testenv.RaceDetector {
		return // it says nothing about programs that are executed
	}
	if backend() == nil {
		testenv.NeedNamespaces(t)
	}
	for _, k := range tasks {
		t.Run(k.name, func(t *testing.T) {
			switch {
			case k.slow:
				testenv.NeedLong(t)
			case k.who == "":
				testenv.TakeTurns(t)
			}
			switch k.who {
			case "root":
				testenv.NeedRoot(t)
			case "user":
				testenv.NeedUser(t)
			}
			for program := range strings.FieldsSeq(k.needs) {
				need(t, program)
			}
			if why := apart[k.name]; why != "" && backend() != nil {
				testenv.Skip(t, "namespaces", why)
			}
			compare(t, k)
		})
	}
}

// need skips a task without a program.
func need(t *testing.T, program string) {
	t.Helper()
	if program == "python3-venv" {
		if exec.Command("python3", "-c", "import ensurepip").Run() == nil {
			return
		}
	} else if _, err := exec.LookPath(program); err == nil {
		return
	}
	testenv.Skip(t, program, "install the package "+packageOf(program)+", or run make test-tools as root")
}

// place is where tasks run: each of their runs at the same path.
type place struct{ dir, project, base, state string }

func newPlace(t *testing.T) place {
	t.Helper()
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "p/", "state/", "home/.gitconfig: [init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n")
	p := place{dir, filepath.Join(dir, "p"), filepath.Join(dir, "base"), filepath.Join(dir, "state")}
	if backend() != nil { // the copy of the project is in there, and paths of unix sockets are short
		var err error
		if p.state, err = os.MkdirTemp("/tmp", "nsrun-"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.remove(t, p.state) })
	}
	return p
}

// environ is the same for all runs.
func (p place) environ() []string {
	return []string{
		"NSRUN=" + filepath.Join(testenv.Programs(), "nsrun"), "HOME=" + filepath.Join(p.dir, "home"), "XDG_STATE_HOME=" + p.state, "PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin",
		"LC_ALL=C.UTF-8", "TZ=UTC", "SOURCE_DATE_EPOCH=1", "PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1", "TERM=dumb",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_AUTHOR_DATE=@1 +0000",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_COMMITTER_DATE=@1 +0000",
	}
}

// backend are the flags for another backend than usual: NSRUN_TOOLS_BACKEND names it.
func backend() []string {
	if name := os.Getenv("NSRUN_TOOLS_BACKEND"); name != "" {
		return []string{"--backend", name}
	}
	return nil
}

// result is what came of a run.
type result struct {
	status int
	out    string
	files  map[string]string
	then   string
}

// script runs one in the project, natively or with the arguments before it.
func (p place) script(text string, before ...string) (status int, out, errout string, err error) {
	args := append(slices.Clone(before), "sh", "-c", text)
	c := exec.Command(args[0], args[1:]...)
	c.Dir, c.Env = p.project, p.environ()
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err = c.Run()
	if _, exited := err.(*exec.ExitError); exited {
		err = nil
	}
	return statusOf(c.ProcessState), stdout.String(), stderr.String(), err
}

// statusOf is the exit status, as shells number it.
func statusOf(ended *os.ProcessState) int {
	if w, ok := ended.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return ended.ExitCode()
}

// begin makes the project, which the rounds copy.
func (p place) begin(t *testing.T, setup string) {
	t.Helper()
	if status, out, errout, err := p.script("set -e\n" + setup); err != nil || status != 0 {
		t.Fatalf("setup: %v, %d\n%s%s", err, status, out, errout)
	}
	if err := os.Rename(p.project, p.base); err != nil {
		t.Fatal(err)
	}
}

// copy makes the project that is there at a round's begin.
func (p place) copy(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", p.base, p.project).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// round copies the project, runs the task in it, and looks at what came of it.
func (p place) round(t *testing.T, k task, before ...string) (r result, errout string) {
	t.Helper()
	p.copy(t)
	defer p.remove(t, p.project)
	var err error
	if r.status, r.out, errout, err = p.script(k.run, before...); err != nil {
		t.Fatal(err)
	}
	r.files = files(t, p.project, k.loose)
	if k.then != "" {
		_, out, errs, err := p.script(k.then)
		if err != nil {
			t.Fatal(err)
		}
		r.then = out + errs
	}
	return r, errout
}

func (p place) remove(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.Command("sh", "-c", `chmod -R u+rwx "$0"; rm -rf "$0"`, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// compare runs a task natively and in a sandbox.
func compare(t *testing.T, k task) {
	p := newPlace(t)
	if k.session {
		p.needOwners(t)
	}
	p.begin(t, k.setup)
	want, nativeErrors := p.round(t, k)
	p.sandboxed(t, k, want, nativeErrors, "--commit")
	if testenv.Long() && backend() == nil && !k.session {
		p.sandboxed(t, k, want, nativeErrors, "--direct", "--preset", "git")
	}
	if want.status != 0 {
		t.Logf("natively it ends with status %d: %s", want.status, nativeErrors)
	}
}

// needOwners skips a task where root's commands cannot change owners, even in a session.
func (p place) needOwners(t *testing.T) {
	t.Helper()
	args := append([]string{filepath.Join(testenv.Programs(), "nsrun"), "run", "-q", "--project", ".", "--discard"}, backend()...)
	status, _, errout, err := p.script("touch f && chown 1:2 f", append(args, "--")...)
	if err != nil || status != 0 {
		testenv.Skip(t, "idmapped mounts", fmt.Sprintf("%v, %d, %s", err, status, errout))
	}
}

// sandboxed runs a task in a sandbox, and compares what comes of it with what came of it natively.
func (p place) sandboxed(t *testing.T, k task, want result, nativeErrors string, how ...string) {
	t.Helper()
	args := append([]string{filepath.Join(testenv.Programs(), "nsrun"), "run", "-q", "--project", "."}, backend()...)
	args = append(append(args, how...), strings.Fields(k.flags)...)
	got, errout := p.round(t, k, append(args, "--")...)
	if k.differs != "" {
		if got.out != k.differs {
			t.Errorf("%v: printed %q, want %q\n%s", how, got.out, k.differs, errout)
		}
		return
	}
	if got.status != want.status || got.out != want.out {
		t.Errorf("%v: status %d, printed %q\nwant   %d,         %q\nstandard error: %s\nnatively: %s", how, got.status, got.out, want.status, want.out, errout, nativeErrors)
	}
	if got.then != want.then {
		t.Errorf("%v: the second command printed %q\nwant %q\n%s", how, got.then, want.then, errout)
	}
	for _, line := range different(got.files, want.files) {
		t.Errorf("%v: %s", how, line)
	}
}

// files lists the types, modes, owners and contents of all files below dir, and which names are one file. It leaves out
// the contents of git's index, which hold inode numbers and times.
func files(t *testing.T, dir string, loose bool) map[string]string {
	t.Helper()
	found, first := make(map[string]string), make(map[uint64]string)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		st := info.Sys().(*syscall.Stat_t)
		text := fmt.Sprint(info.Mode(), " ", st.Uid, ":", st.Gid)
		index := strings.Contains(rel, ".git/") && filepath.Base(rel) == "index"
		switch {
		case loose:
			text = info.Mode().String()
		case info.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(name)
			text += " " + to
		case info.Mode().IsRegular() && !index:
			b, err := os.ReadFile(name)
			if err != nil && !os.IsPermission(err) {
				return err
			}
			text += fmt.Sprintf(" %d %x", len(b), sha256.Sum256(b))
		}
		if !info.IsDir() && st.Nlink > 1 {
			if first[st.Ino] == "" {
				first[st.Ino] = rel
			}
			text += fmt.Sprint(" one of ", st.Nlink, ", ", first[st.Ino])
		}
		found[rel] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// different lists what differs, a few at most.
func different(got, want map[string]string) (list []string) {
	for name, w := range want {
		if g := got[name]; g != w {
			list = append(list, fmt.Sprintf("%s is %q, want %q", name, g, w))
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			list = append(list, name+" should not be there")
		}
	}
	slices.Sort(list)
	return list[:min(len(list), 10)]
}
