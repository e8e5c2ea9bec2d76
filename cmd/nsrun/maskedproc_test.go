//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestMaskedProc: if something is mounted over a part of /proc, as in containers, the kernel makes no new one. Then
// commands see the existing one. They cannot write to it, and cannot look into other processes.
func TestMaskedProc(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	project, report, file := filepath.Join(dir, "project"), filepath.Join(dir, "report"), filepath.Join(dir, "filter")
	if err := os.Mkdir(project, 0o755); err != nil {
		t.Fatal(err)
	}
	const look = `echo $(cat /proc/self/comm /proc/$v/cmdline | tr '\0' ' ')
for f in /proc/$v/environ /proc/$v/mem /proc/$v/root/ /proc/$v/cwd/ /proc/$v/fd/ /proc/$v/ns/mnt; do cat $f 2>&1 | grep -q SECRET || ls -L $f/. >&- 2>&- && echo opened $f; done
{ echo 1 >/proc/$v/oom_score_adj; } 2>&- && echo written
echo done >/dev/stdout`
	const script = `SECRET=secret sleep 1000 & export v=$!
case $0 in
sandbox) "$@" ;;
*) eval "$LOOK" ;;
esac
status=$?; kill $v; exit $status`
	run := func(filter []byte, masks []string, name string, args ...string) ran {
		if err := os.WriteFile(file, filter, 0o644); err != nil {
			t.Fatal(err)
		}
		outer := append([]string{"--unshare-user", "--cap-add", "ALL", "--dev-bind", "/", "/"}, masks...)
		outer = append(outer, "--seccomp-file", file, "--", "/bin/sh", "-c", script, name)
		c := command(append(outer, args...)...)
		c.Dir, c.Env = project, append(os.Environ(), "LOOK="+look)
		return runs(t, bin, "nsrun", c)
	}
	masks := []string{"--tmpfs", "/proc/driver", "--ro-bind", "/proc/sys", "/proc/sys"}
	sandboxed := []string{filepath.Join(bin, "nsrun"), "run", "--discard", "--report", report, "--", "/bin/sh", "-c", `eval "$LOOK"`}
	none, classic := refuse(unix.ENOSYS, ^uint32(0)), refuse(unix.ENOSYS, unix.SYS_MOUNT_SETATTR)
	for name, filter := range map[string][]byte{"new calls": none, "mount(2)": classic} {
		got := run(filter, masks, "sandbox", sandboxed...)
		b, err := os.ReadFile(report)
		// The notice may come between the command's two lines.
		if got.status != 0 || !strings.Contains(got.out, "cat sleep 1000\n") || !strings.Contains(got.out, "\ndone\n") || strings.Contains(got.out, "opened") ||
			strings.Contains(got.out, "written") || strings.Count(got.out, "no /proc of its own") != 1 ||
			err != nil || !strings.Contains(string(b), `"own proc"`) {
			t.Errorf("%s: status %d\n%s%s%v", name, got.status, got.out, b, err)
		}
	}
	// Controls: without a sandbox the process is open, and where nothing is masked it is not visible.
	if got := run(none, masks, "control"); !strings.Contains(got.out, "opened /proc") || !strings.Contains(got.out, "written") {
		t.Errorf("the control: status %d\n%s", got.status, got.out)
	}
	if got := run(none, nil, "sandbox", sandboxed...); got.status != 0 || strings.Contains(got.out, "sleep 1000") || strings.Contains(got.out, "of its own") {
		t.Errorf("with nothing masked: status %d\n%s", got.status, got.out)
	}
}

// TestDisableUsernsUnderMounts: that something is mounted below /proc, as binfmt_misc is on most hosts, is no obstacle.
func TestDisableUsernsUnderMounts(t *testing.T) {
	testenv.Leaks(t, reap)
	bin := installed(t)
	run := func(outer ...string) ran {
		if testenv.Root() {
			outer = append(outer, "--cap-add", "CAP_SETFCAP") // which root needs to map itself
		}
		outer = append(outer, "--", filepath.Join(bin, "bwrap"), "--unshare-user", "--disable-userns", "--bind", "/", "/",
			"sh", "-c", "unshare -U true 2>&- || echo none")
		return runs(t, bin, "nsrun", command(append([]string{"--unshare-user", "--dev-bind", "/", "/"}, outer...)...))
	}
	for name, outer := range map[string][]string{"mounted": {"--tmpfs", "/proc/driver"}, "the control": nil} {
		if got := run(outer...); got.status != 0 || got.out != "none\n" {
			t.Errorf("%s: status %d\n%s", name, got.status, got.out)
		}
	}
}
