//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestCommandLines: bubblewrap's command lines of programs for agents run as they stand.
func TestCommandLines(t *testing.T) {
	testenv.Leaks(t, reap)
	bin := installed(t)
	for _, name := range []string{"/lib64", "/etc/resolv.conf", "/etc/ssl"} {
		if _, err := os.Stat(name); err != nil {
			testenv.Skip(t, name, "the command lines need it as a bind source")
		}
	}
	for name, c := range map[string]struct{ line, out, made string }{
		"the workspace as the root": {`--bind WORK / --ro-bind /usr /usr --ro-bind /lib /lib --ro-bind /lib64 /lib64 --ro-bind /bin /bin --ro-bind /sbin /sbin
			--ro-bind /etc/resolv.conf /etc/resolv.conf --ro-bind /etc/hosts /etc/hosts --ro-bind /etc/ssl /etc/ssl --proc /proc --dev /dev
			--tmpfs /tmp --ro-bind STORE STORE --chdir / --unshare-all --share-net --new-session --die-with-parent
			--setenv HOME / --setenv PATH /.venv/bin:/usr/bin:/bin /bin/bash -c`, "/ / /.venv/bin:/usr/bin:/bin\n", "made"},
		"its short form": {`--bind WORK / --ro-bind /usr /usr --ro-bind /lib /lib --ro-bind /lib64 /lib64 --ro-bind /bin /bin
			--ro-bind /etc/resolv.conf /etc/resolv.conf --tmpfs /tmp --proc /proc --dev /dev --chdir / --setenv HOME / --setenv PATH /usr/bin:/bin /bin/bash -c`, "/ / /usr/bin:/bin\n", "made"},
		"the project at its own path": {`--unshare-net --unshare-pid --die-with-parent --new-session --ro-bind /usr /usr --ro-bind /lib /lib --ro-bind /lib64 /lib64
			--ro-bind /bin /bin --ro-bind /etc/resolv.conf /etc/resolv.conf --bind WORK WORK --tmpfs /tmp/below --dev /dev --proc /proc
			--chdir WORK --setenv HOME / --setenv PATH /bin -- sh -c`, "WORK / /bin\n", "made"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := testenv.Dir(t)
			testenv.Tree(t, dir, "work/", "store/")
			put := strings.NewReplacer("WORK", filepath.Join(dir, "work"), "STORE", filepath.Join(dir, "store"))
			args := append(strings.Fields(put.Replace(c.line)), `echo $PWD $HOME $PATH; echo x >made; ! touch /usr/x 2>/dev/null`)
			for _, program := range []string{"nsrun", "bwrap"} {
				got := runs(t, bin, program, command(args...))
				if got.status != 0 || got.out != put.Replace(c.out) {
					t.Errorf("%s: %d, %q", program, got.status, got.out)
				}
				if b, err := os.ReadFile(filepath.Join(dir, "work", c.made)); err != nil || string(b) != "x\n" {
					t.Errorf("%s: %q, %v", program, b, err)
				}
			}
		})
	}
}
