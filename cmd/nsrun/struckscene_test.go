//go:build linux

package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// struckBefore makes a project with something for every kind of change. All of it is old.
const struckBefore = `
mkdir -p .git/hooks deep/a/b/c/d renamed/sub gone/sub become-file kept
echo ref: refs/heads/main >.git/HEAD
echo '[core]' >.git/config
echo one >changed
echo two >two-a && ln two-a two-b
echo three >three-a && ln three-a three-b
echo x >become-dir && echo x >become-file/x && echo x >become-link
ln -s changed link
echo deep >deep/a/b/c/d/f
echo r >renamed/f && echo r >renamed/sub/g
echo g >gone/f && echo g >gone/sub/g && echo g >gone-file
echo m >mode
echo s >secret && chmod 0 secret
echo k >kept/f
head -c 300000 /dev/zero | tr '\0' b >big
find . -depth -exec touch -h -d '2020-01-02 03:04:05.123 UTC' {} +
`

// struckChange changes it, as a command in the sandbox.
const struckChange = `
echo another >changed
echo two, changed >two-a
rm three-b && ln three-a three-c
rm become-dir && mkdir become-dir && echo y >become-dir/y
rm -r become-file && echo y >become-file
rm become-link && ln -s kept become-link
rm link && ln -s mode link
echo deeper >deep/a/b/c/d/f && mkdir -p deep/a/n/m && echo n >deep/a/n/m/f
mv renamed moved
rm -r gone gone-file secret
chmod 755 mode
mkdir new empty && echo n >new/f && ln new/f new/g && ln -s f new/l && echo s >new/secret && chmod 0 new/secret
mkfifo fifo
printf 'a\nb' >'new/two
lines'
echo changed >>big
echo '[user]' >>.git/config && echo '#!/bin/sh' >.git/hooks/pre-commit && chmod 755 .git/hooks/pre-commit
find . -depth ! -path './kept*' -exec touch -h -d '2021-01-02 03:04:05.456 UTC' {} +
`

// ownersBytes are in every file that the project's owner writes beside the session.
const ownersBytes = "written by the owner"

// ownersEdits are what the owner does after the session.
var ownersEdits = map[string]string{
	"beside":   `echo '` + ownersBytes + ` beside' >beside; echo '` + ownersBytes + ` f' >kept/f; at beside kept/f kept .`,
	"conflict": `echo '` + ownersBytes + ` changed' >changed; mkdir -p new; echo '` + ownersBytes + ` new' >new/f; rm -f mode; at changed new/f new .`,
	"after":    `echo '` + ownersBytes + ` changed' >changed; echo '` + ownersBytes + ` replaced' >r; mv r two-a; echo '` + ownersBytes + ` again' >gone; echo '` + ownersBytes + ` new' >new/more; rm -f mode; at changed two-a gone new/more new .`,
}

const at2022 = "at() { touch -h -d '2022-01-02 03:04:05.789 UTC' \"$@\"; }\n"

// A struckPlace is a project, and what nsrun keeps beside it.
type struckPlace struct {
	dir, project, bin string
	env               []string
	engine            string
}

// newStruckPlace makes the project.
func newStruckPlace(t *testing.T, base, bin, engine string) *struckPlace {
	t.Helper()
	dir, err := os.MkdirTemp(base, "")
	if err != nil {
		t.Fatal(err)
	}
	testenv.Tree(t, dir, "home/", "p/")
	p := &struckPlace{dir: dir, project: filepath.Join(dir, "p"), bin: bin, engine: engine}
	p.env = []string{"HOME=" + filepath.Join(dir, "home"), "PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=" + noon(), "GORACE=atexit_sleep_ms=0"}
	p.shell(t, struckBefore)
	return p
}

func (p *struckPlace) shell(t *testing.T, script string) {
	t.Helper()
	c := exec.Command("/bin/sh", "-ec", script)
	c.Dir = p.project
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// command is nsrun with arguments; CHANGE stands for the command that changes the project.
func (p *struckPlace) command(args []string) (*exec.Cmd, *bytes.Buffer) {
	args = slices.Clone(args)
	if i := slices.Index(args, "CHANGE"); i >= 0 {
		args = slices.Replace(args, i, i+1, "--engine", p.engine, "--", "/bin/sh", "-ec", struckChange)
	}
	c := exec.Command(filepath.Join(p.bin, "nsrun"), args...)
	c.Dir, c.Env = p.project, p.env
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	return c, &out
}

// do runs nsrun, or lets the owner edit the project: "owner: beside".
func (p *struckPlace) do(t *testing.T, line string) (status int, out string) {
	t.Helper()
	if name, ok := strings.CutPrefix(line, "owner: "); ok {
		p.shell(t, at2022+ownersEdits[name])
		return 0, ""
	}
	c, said := p.command(strings.Fields(line))
	var printed bytes.Buffer // apart: JSON
	c.Stdout = &printed
	if err := c.Run(); c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), cmp.Or(printed.String(), said.String())
}

// drop removes all of it.
func (p *struckPlace) drop(t *testing.T) {
	t.Helper()
	_ = filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o755)
		}
		return nil
	})
	if err := os.RemoveAll(p.dir); err != nil {
		t.Fatal(err)
	}
}

// tree is all that can be seen of the project, a line for each object.
func (p *struckPlace) tree(t *testing.T) (list []string) {
	t.Helper()
	first := map[uint64]string{}
	err := filepath.WalkDir(p.project, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		rel, _ := filepath.Rel(p.project, path)
		line := fmt.Sprintf("%q %o %d:%d at %d", rel, st.Mode, st.Uid, st.Gid, st.Mtim.Nano())
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			b, err := os.ReadFile(path)
			if err != nil && st.Mode&0o400 != 0 {
				return err
			}
			if first[st.Ino] == "" {
				first[st.Ino] = rel
			}
			line += fmt.Sprintf(" %d %q %x is %q", st.Size, b[:min(len(b), 40)], sha256.Sum256(b), first[st.Ino])
		case unix.S_IFLNK:
			text, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " → " + text
		}
		list = append(list, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// sessions are the states of the sessions, and what those that are kept changed.
func (p *struckPlace) sessions(t *testing.T) (list []string, err error) {
	t.Helper()
	status, out := p.do(t, "ls --all --json")
	var sessions []struct {
		Session, State string
		Busy, Unsynced bool
	}
	if err := json.Unmarshal([]byte(out), &sessions); err != nil || status != 0 {
		return nil, fmt.Errorf("nsrun ls: %d %w %s", status, err, out)
	}
	for _, s := range sessions {
		list = append(list, fmt.Sprintf("session %s busy %t unsynced %t", s.State, s.Busy, s.Unsynced))
		if s.State != "kept" {
			continue
		}
		status, out := p.do(t, "show --json "+s.Session)
		var shown struct{ Changes []map[string]any }
		if err := json.Unmarshal([]byte(out), &shown); err != nil || status != 0 {
			return nil, fmt.Errorf("nsrun show: %d %w %s", status, err, out)
		}
		for _, c := range shown.Changes {
			list = append(list, fmt.Sprintf("session changes %v: %v %v %v %v", c["path"], c["kind"], c["mode"], c["size"], c["aspects"]))
		}
	}
	return list, nil
}

// kept reports whether a text is in some file of the project or of nsrun's directories.
func (p *struckPlace) kept(t *testing.T, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || found {
			return nil // what nobody may read does not have it
		}
		b, err := os.ReadFile(path)
		found = err == nil && bytes.Contains(b, []byte(text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// unlogged says where nsrun log does not know what became of a session.
func (p *struckPlace) unlogged(t *testing.T) (wrong []string) {
	t.Helper()
	type state struct{ Session, State string }
	list := func(line string) (list []state) {
		status, out := p.do(t, line)
		if err := json.Unmarshal([]byte(out), &list); err != nil || status != 0 {
			t.Fatalf("%s: %d %v %s", line, status, err, out)
		}
		return list
	}
	logged := list("log --json")
	for _, s := range list("ls --all --json") {
		if !slices.Contains(logged, s) {
			wrong = append(wrong, fmt.Sprintf("session %s is %s, and the log has %v", s.Session, s.State, logged))
		}
	}
	return wrong
}

// has reports whether a file of the project has this text.
func (p *struckPlace) has(t *testing.T, name, text string) bool {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.project, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b) == text
}

// litter is what a commit may leave in a project for a moment.
func (p *struckPlace) litter(t *testing.T) (list []string) {
	t.Helper()
	_ = filepath.WalkDir(p.project, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), ".nsrun") {
			list = append(list, path)
		}
		return nil
	})
	return list
}
