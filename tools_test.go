//go:build linux

package nsrun_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// tools are commands as agents run them. What they do in a sandbox is compared with what
// they do without one.
var tools = []struct {
	name   string
	needs  []string // programs
	once   bool     // it takes long: as root, with an overlay
	root   bool     // of Go, which takes long without a build cache: as root
	long   bool     // it takes longer than one waits
	tree   []string
	before string // makes the rest of the project, outside of any sandbox
	script string
}{
	{
		name: "go build", needs: []string{"go"}, root: true,
		tree: []string{"go.mod: module m\n\ngo 1.20\n", "main.go: package main\n\nimport \"m/a\"\n\nfunc main() { println(a.A) }\n", "a/a.go: package a\n\nconst A = 1\n"},
		// Linking writes nothing of the time or the cache; the path is the same.
		script: "go build -o out . && ./out",
	},
	{
		name: "go test", needs: []string{"go"}, root: true,
		tree: []string{"go.mod: module m\n\ngo 1.20\n", "m_test.go: package m\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n" +
			"func Test(t *testing.T) {\n\tif err := os.WriteFile(t.TempDir()+\"/f\", nil, 0o600); err != nil {\n\t\tt.Fatal(err)\n\t}\n\tif err := os.WriteFile(\"golden\", []byte(\"x\"), 0o600); err != nil {\n\t\tt.Fatal(err)\n\t}\n}\n"},
		script: "go test -vet=off -count=1 . >/dev/null && go test -vet=off -c -o t.test .",
	},
	{
		name: "git", needs: []string{"git"}, tree: []string{"f: 1\n2\n3\n", "g: x\n"},
		before: "git init -q -b main . && git add . && git commit -qm first && git branch side",
		script: "echo 4 >>f && git commit -qam second && git checkout -q side && echo y >>g && git commit -qam side && " +
			"git rebase -q main && git worktree add -q wt main && cd wt && echo w >w && git add w && git commit -qm wt && cd .. && " +
			"git mv g h && git commit -qm moved && git stash -q 2>&1; git merge -q main -m merge && git gc -q && git fsck --strict && " +
			"git log --graph --format='%s %T' --all && git ls-files -s && git -C wt ls-files -s && git status --porcelain",
	},
	{
		name: "make", needs: []string{"make", "cc"},
		tree:   []string{"Makefile: prog: main.o lib.o\n\tcc -o $@ $^\n%.o: %.c\n\tcc -c -o $@ $<\n", "main.c: int f(void); int main(void) { return f(); }\n", "lib.c: int f(void) { return 0; }\n"},
		script: "make -j2 >/dev/null && ./prog && touch lib.c && make -q; echo $?; make >/dev/null",
	},
	{
		name: "npm", needs: []string{"npm", "tar"},
		tree:   []string{`package.json: {"name":"p","version":"1.0.0"}`, `dep/package/package.json: {"name":"dep","version":"1.0.0","bin":{"dep":"dep.js"}}`, "dep/package/dep.js: #!/usr/bin/env node\nconsole.log('dep')\n"},
		before: "tar --owner=0 --group=0 --mtime=@1 -C dep -czf dep.tgz package && rm -r dep",
		script: "npm install --offline --no-audit --no-fund --loglevel=error ./dep.tgz >/dev/null && node_modules/.bin/dep",
	},
	{
		name: "python venv", needs: []string{"python3"},
		script: "python3 -m venv --without-pip env && env/bin/python -c 'import sys; print(sys.prefix)' && . env/bin/activate && python --version",
	},
	{
		name: "python venv with pip", needs: []string{"python3"}, long: true,
		script: "python3 -m venv env && . env/bin/activate && pip --version >/dev/null",
	},
	{
		name: "tar", needs: []string{"tar", "gzip"}, tree: []string{"d/a: 1\n", "d/b/c: 2\n", "d/l => a"},
		before: "chmod 640 d/a && ln d/a d/hard",
		script: "tar -czf t.tgz --mtime=@1 d && rm -r d && mkdir x && tar -C x -xpf t.tgz && stat -c %h x/d/a && tar -C x -xpf t.tgz",
	},
	{name: "sed -i", needs: []string{"sed"}, tree: []string{"a: one\ntwo\n", "d/b: one\n", "l => a"}, script: "sed -i s/one/1/ a d/b && sed -i.orig s/two/2/ a && sed -i --follow-symlinks s/1/I/ l"},
	{
		name: "patch", needs: []string{"patch"}, tree: []string{"a: one\ntwo\nthree\n", "gone: x\n",
			"p: --- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n--- /dev/null\n+++ b/new/f\n@@ -0,0 +1 @@\n+new\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"},
		script: "patch -p1 <p && patch -p1 -R <p && patch -p1 -b <p",
	},
	{
		name: "many objects", needs: []string{"cc", "as"}, once: true,
		before: "for i in $(seq $OBJECTS); do echo \".globl f$i; f$i: ret\" >f$i.s; done",
		script: "mkdir out && ls *.s | sed 's/.s$//' | xargs -P2 -I{} as -o out/{}.o {}.s && cc -shared -nostdlib -o all.so out/*.o && ls out | wc -l",
	},
	{name: "pipe chain", script: "seq 1 200000 | sort -r | tee sorted | awk '{ s += $1 } END { print s }' | tee sum | cat; wc -l <sorted; yes | head -n 3; echo ${PIPESTATUS:-none}"},
	{
		name: "background server", needs: []string{"python3"},
		tree: []string{"server.py: import socket\ns = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()\nopen('port.new', 'w').write(str(s.getsockname()[1]))\n" +
			"import os\nos.rename('port.new', 'port')\nwhile True:\n    c, _ = s.accept()\n    open('served', 'ab').write(c.recv(100))\n    c.sendall(b'ok\\n')\n    c.close()\n",
			"client.py: import socket\ns = socket.create_connection(('127.0.0.1', int(open('port').read())))\ns.sendall(b'hello\\n')\nprint(s.recv(100).decode(), end='')\n"},
		script: "python3 -B server.py & while [ ! -e port ]; do sleep 0.01; done; python3 -B client.py; python3 -B client.py; rm port; kill $!; wait 2>/dev/null",
	},
	{name: "pty", needs: []string{"script"}, script: "script -qec 'test -t 1 && stty rows 7 cols 9 && stty size && echo x >f' /dev/null </dev/null"},
}

// TestTools: real tools do the same in a sandbox as without: with an overlay and a commit, and directly. Output and
// files are the same. All run at the same path, one after the other, so that nothing has to be left out of the
// comparison.
func TestTools(t *testing.T) {
	if testenv.RaceDetector {
		return // it takes long, and the tools are not a concern of the detector
	}
	testenv.Leaks(t, nsexec.Shutdown)
	home := testenv.Dir(t) // one, so that Go compiles its own packages once
	testenv.Tree(t, home, ".npm/", ".cache/")
	cache, _ := exec.Command("go", "env", "GOCACHE").Output() // while HOME is the user's
	for _, tool := range tools {
		t.Run(tool.name, func(t *testing.T) {
			if tool.long {
				testenv.NeedLong(t)
			}
			switch {
			case tool.once:
				testenv.NeedRoot(t)
			case tool.root:
				testenv.Once(t)
			default:
				testenv.TakeTurns(t)
			}
			for _, name := range tool.needs {
				if _, err := exec.LookPath(name); err != nil {
					testenv.Skip(t, name, err.Error())
				}
			}
			dir := place(t, tool.tree...)
			t.Setenv("HOME", home)
			t.Setenv("GOCACHE", "") // which may be where sandboxes cannot write
			p := filepath.Join(dir, "p")
			env := []string{
				fmt.Sprint("OBJECTS=", testenv.Rounds(150, 5000)), "LC_ALL=C", "TZ=UTC", "SOURCE_DATE_EPOCH=1", "GOFLAGS=-trimpath=false", "GOPROXY=off", "GOTOOLCHAIN=local", "CGO_ENABLED=0", "PYTHONHASHSEED=0",
				"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_AUTHOR_DATE=@1 +0000", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_COMMITTER_DATE=@1 +0000",
			}
			plain := func(script string) string {
				c := exec.Command("/bin/sh", "-c", script)
				c.Dir, c.Env = p, append(append(nsrun.SafeEnv(os.Environ()), "TMPDIR=/tmp"), env...)
				out, err := c.Output()
				if err != nil {
					t.Fatalf("without a sandbox: %v\n%s%v", err, out, c.Stderr)
				}
				return string(out)
			}
			plain("true\n" + tool.before)
			if tool.root {
				warm(t, p, strings.TrimSpace(string(cache)), filepath.Join(home, ".cache/go-build"), env)
			}
			base := filepath.Join(dir, "base")
			if err := os.Rename(p, base); err != nil {
				t.Fatal(err)
			}
			run := func(f func() string) (string, map[string]string) {
				if out, err := exec.Command("cp", "-a", base, p).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				out := f()
				found := files(t, p)
				if err := os.RemoveAll(p); err != nil {
					t.Fatal(err)
				}
				return out, found
			}
			out, want := run(func() string { return plain(tool.script) })
			for name, c := range map[string]nsrun.Config{
				"overlay": {After: nsrun.Commit}, "direct": {Mode: nsrun.Direct, Preset: nsrun.GitPreset},
			} {
				if tool.once && name != "overlay" {
					continue
				}
				if tool.root && c.Mode == nsrun.Direct {
					c.Preset = nsrun.BuildPreset // the others have no build cache
				}
				got, found := run(func() string {
					c.Project, c.Env, c.MaxOutput = p, env, -1
					r := runner(t, c)
					res, err := r.Run(t.Context(), nsrun.Request{Command: tool.script})
					if err != nil || res.ExitCode != 0 {
						t.Errorf("%s: %v, %s", name, err, res)
					}
					return string(res.Stdout.Bytes())
				})
				if got != out {
					t.Errorf("%s: printed %q, want %q", name, got, out)
				}
				if len(want) == 0 {
					t.Error("the tool wrote nothing")
				}
				for _, diff := range different(found, want) {
					t.Errorf("%s: %s", name, diff)
				}
			}
		})
	}
}

// warm copies from the caller's build cache what the packages in dir need, most of all Go's own, whose
// compiling takes longer than the rest of the tests. What cannot be found there is compiled.
func warm(t *testing.T, dir, from, to string, env []string) {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-test", "-f", "{{.BuildID}} {{.Export}}", "./...")
	list.Dir, list.Env = dir, append(append(os.Environ(), env...), "GOCACHE="+from)
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		// A build's id begins with half of the key of the entry, which tells the file.
		id, file, ok := strings.Cut(strings.TrimSpace(line), " ")
		action, _, _ := strings.Cut(id, "/")
		half, err := base64.RawURLEncoding.DecodeString(action)
		if !ok || err != nil || len(half) == 0 {
			continue
		}
		entries, _ := filepath.Glob(filepath.Join(from, fmt.Sprintf("%x/%x*-a", half[:1], half)))
		for _, name := range append(entries, file) {
			rel, err := filepath.Rel(from, name)
			if err != nil || !filepath.IsLocal(rel) {
				continue
			}
			testenv.Tree(t, to, filepath.Dir(rel)+"/")
			b, err := os.ReadFile(name)
			if err == nil {
				err = os.WriteFile(filepath.Join(to, rel), b, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// files are the types, modes and contents of all files below dir. Git's index holds inode
// numbers and times: what is in it the script prints.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		text := info.Mode().String()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(name)
			text += " " + to
		case info.Mode().IsRegular():
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if strings.Contains(rel, ".git/") && filepath.Base(rel) == "index" {
				b = nil
			}
			text += fmt.Sprintf(" %d %x", len(b), sha256.Sum256(b))
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
