//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestNoWayOutByDescriptor: no descriptor of the set-up leads out of the sandbox, as a
// working directory or otherwise (CVE-2024-21626 of runc). What the caller leaves open,
// bwrap's command line passes on, as bubblewrap does; nsrun run does not.
func TestNoWayOutByDescriptor(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "secret: s", "p/", "home/", "ws/")
	system := []string{"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--unshare-pid",
		"--bind", filepath.Join(dir, "ws"), "/ws"}
	look := "for f in /proc/self/fd/* /proc/[0-9]*/fd/* /proc/[0-9]*/cwd /proc/[0-9]*/root; do for up in '' /.. /../.. /../../.. /../../../..; do [ -e $f$up/secret ] && echo found $f$up; " +
		"[ -e $f$up" + dir + "/secret ] && echo found $f$up; done; done; cat secret ../secret 2>&-; pwd -P"
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for fd := range 30 {
		for _, args := range [][]string{
			slices.Concat([]string{"bwrap"}, system, []string{"--chdir", fmt.Sprint("/proc/self/fd/", fd), "sh", "-c", look}),
			slices.Concat([]string{"bwrap"}, system, []string{"--chdir", fmt.Sprint("/proc/1/fd/", fd), "sh", "-c", look}),
			slices.Concat([]string{"bwrap"}, system, []string{"--chdir", fmt.Sprint("/proc/self/fd/", fd, "/.."), "sh", "-c", look}),
			{"nsrun", "run", "-C", fmt.Sprint("/proc/self/fd/", fd), "sh", "-c", look},
		} {
			c := command(args[1:]...)
			c.Dir = filepath.Join(dir, "p")
			c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home")}
			if got := runs(t, bin, args[0], c); got.status == 0 || strings.Contains(got.out, "found") {
				t.Errorf("%q: status %d\n%s", args, got.status, got.out)
			}
		}
	}
	// With a descriptor of the caller's that nobody meant for the command.
	leaky := func(args ...string) ran {
		c := command(args[1:]...)
		c.Dir = filepath.Join(dir, "p")
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home")}
		c.ExtraFiles = []*os.File{f}
		return runs(t, bin, args[0], c)
	}
	for _, args := range [][]string{
		{"nsrun", "run", "--direct", "sh", "-c", look + "; ls /proc/self/fd"},
		{"nsrun", "run", "sh", "-c", look + "; ls /proc/self/fd"},
	} {
		if got := leaky(args...); got.status != 0 || strings.Contains(got.out, "found") || !strings.HasSuffix(got.out, "\n0\n1\n2\n3\n") { // 3 is ls's own
			t.Errorf("%q: status %d\n%s", args, got.status, got.out)
		}
	}
	// Control: bwrap's options pass it on, and it leads out.
	if got := leaky(slices.Concat([]string{"bwrap"}, system, []string{"--chdir", "/proc/self/fd/3", "sh", "-c", look})...); !strings.Contains(got.out, "found") {
		t.Errorf("the control: status %d\n%s", got.status, got.out)
	}
}

// TestOverwriteNsrun: nobody inside can write to the file of the nsrun command, which
// its PID 1 executes, nor to its memory (CVE-2019-5736 of runc).
func TestOverwriteNsrun(t *testing.T) {
	testenv.Leaks(t, reap)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "bin/", "p/", "home/", "ws/")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "bin")
	for _, name := range []string{"nsrun", "bwrap"} { // copies, which the caller may write to
		if err := os.WriteFile(filepath.Join(bin, name), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	attack := "for p in /proc/1 /proc/self/../1 /proc/[0-9]*; do if [ $p/exe -ef " + bin + "/nsrun ] || [ $p/exe -ef " + bin + "/bwrap ]; then exec 9< $p/exe; echo x >> $p/exe; echo x >> /proc/self/fd/9; echo x > $p/mem; fi; done 2>&-; " +
		"for i in 1 2 3; do sleep 0.01; echo x >> /proc/self/fd/9; done 2>&-; echo done"
	for _, args := range [][]string{
		{"bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "sh", "-c", attack},
		{"bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--unshare-user", "--cap-drop", "ALL", "sh", "-c", attack},
		{"bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--unshare-user", "sh", "-c", attack},
		{"bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "--as-pid-1", "sh", "-c", attack},
		{"bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--cap-drop", "ALL", "sh", "-c", attack},
		{"bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--cap-drop", "ALL", "--die-with-parent", "sh", "-c", attack},
		{"bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "--argv0", "bwrap", "/proc/self/exe", "--version"},
		{"nsrun", "run", "--ro", bin, "sh", "-c", attack},
		{"nsrun", "run", "--direct", "--ro", bin, "sh", "-c", attack},
		{"nsrun", "run", "--direct", "--ro", bin, "sh", "-c", "(exec 9< /proc/1/exe) 2>&- && echo opened; echo done"},
	} {
		c := command(args[1:]...)
		c.Dir = filepath.Join(dir, "p")
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home")}
		got := runs(t, bin, args[0], c)
		if !strings.Contains(args[len(args)-1], "done") {
			// Whatever it says.
		} else if got.out != "done\n" {
			t.Errorf("%q: status %d\n%s", args, got.status, got.out)
		}
		for _, name := range []string{"nsrun", "bwrap"} {
			after, err := os.ReadFile(filepath.Join(bin, name))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b, after) {
				t.Fatalf("%q: %s was overwritten; status %d\n%s", args, name, got.status, got.out)
			}
		}
	}
	// Control: a program that ended can be overwritten through a descriptor that was
	// opened while it ran, read-only.
	name := filepath.Join(bin, "victim")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	if b, err = os.ReadFile(sleep); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b, 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sh", "-c", name+" 1000 & until [ /proc/$!/exe -ef "+name+" ]; do sleep 0.01; done; exec 9< /proc/$!/exe; kill $!; wait; "+
		"echo x >> /proc/self/fd/9; cmp -s /proc/self/fd/9 "+name+" && tail -c 2 "+name)
	c.Env = []string{"PATH=" + os.Getenv("PATH")}
	if out, err := c.CombinedOutput(); !strings.HasSuffix(string(out), "x\n") {
		t.Fatalf("the control: %s, %v", out, err)
	}
}

// TestArgumentsChanged: what is read from files and descriptors is read once. Who
// changes it meanwhile, or afterwards, gets nothing but one or the other.
func TestArgumentsChanged(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "ws/", "out/")
	// Of the same length, and each in one write.
	strict := "--ro-bind\x00/\x00/\x00--unshare-net\x00--unshare-uts\x00--hostname\x00aaaaaa\x00"
	other := "--ro-bind\x00/\x00/\x00--unshare-net\x00--unshare-uts\x00--hostname\x00bbbbbb\x00"
	name := filepath.Join(dir, "args")
	write := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(strict)
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		often := time.NewTicker(50 * time.Microsecond)
		defer often.Stop()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-often.C:
			}
			text := strict
			if i%2 == 0 {
				text = other
			}
			if _, err := f.WriteAt([]byte(text), 0); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	seen := make(map[string]int)
	for i := 0; i < 100 || len(seen) < 2 && i < 1000; i++ {
		args, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		c := command("--args", "3", "sh", "-c", "uname -n; ls /sys/class/net | tr '\\n' ' ' ; cat /proc/net/dev | wc -l; touch /usr/x 2>&-")
		c.ExtraFiles = []*os.File{args}
		seen[runs(t, bin, "bwrap", c).out]++
		_ = args.Close()
	}
	close(stop)
	<-stopped
	for out := range seen {
		if !strings.HasPrefix(out, "aaaaaa\n") && !strings.HasPrefix(out, "bbbbbb\n") || !strings.HasSuffix(out, "3\n") {
			t.Errorf("said %q", out)
		}
	}
	if len(seen) != 2 {
		t.Errorf("the exchange of the file never mattered: %v", seen)
	}

	// A filter, and a file's content, are what they were when they were read: the
	// command itself rewrites them.
	refuse := []byte{0x20, 0, 0, 0, 0, 0, 0, 0, 0x06, 0, 0, 0, 0, 0, 0xff, 0x7f} // load the number; allow
	filter := filepath.Join(dir, "ws/filter")
	if err := os.WriteFile(filter, refuse, 0o644); err != nil {
		t.Fatal(err)
	}
	fd, err := os.Open(filter)
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	content, err := os.OpenFile(filepath.Join(dir, "ws/content"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if _, err := content.WriteAt([]byte("before"), 0); err != nil {
		t.Fatal(err)
	}
	c := command("--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/mnt", "--bind", dir, "/mnt/dir", "--seccomp", "3", "--ro-bind-data", "4", "/mnt/file", "sh", "-c",
		"echo after > /mnt/dir/ws/content; : > /mnt/dir/ws/filter; cat /mnt/file; grep Seccomp: /proc/self/status; for f in 3 4; do [ ! -e /proc/self/fd/$f ] || echo $f is open; done")
	c.ExtraFiles = []*os.File{fd, content}
	if got := runs(t, bin, "bwrap", c); got.out != "beforeSeccomp:\t2\n" {
		t.Errorf("status %d\n%q", got.status, got.out)
	}
}

// TestNothingShared: nothing is kept in directories that all can write to, where
// somebody could have put it before.
func TestNothingShared(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "p/", "home/", "data: x")
	shared := []string{"/tmp", "/var/tmp", "/dev/shm", "/run"}
	// The times show whether something was made or removed. They are set to long ago first, because two changes
	// within a tick of the clock have the same time.
	list := strings.Join(shared, " ")
	state := "(stat -c '%n %y %z %i' " + list + "; find " + list + ")"
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	testenv.Tree(t, dir, "bin/")
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nsrun", "bwrap"} {
		if err := os.WriteFile(filepath.Join(dir, "bin", name), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	under := func(inner string) ran {
		args := []string{"--bind", "/", "/", "--dev", "/dev"}
		for _, d := range shared {
			if fi, err := os.Lstat(d); err == nil && fi.IsDir() {
				args = append(args, "--perms", "1777", "--tmpfs", d)
			}
		}
		args = append(args, "--perms", "755", "--tmpfs", "/mnt", "--bind", dir, "/mnt/dir", "--chdir", "/mnt/dir/p",
			"sh", "-c", "touch -d @0 "+list+"; "+state+" > /mnt/dir/before 2>&1; "+inner+"; "+state+" > /mnt/dir/after 2>&1; cmp /mnt/dir/before /mnt/dir/after")
		c := command(args...)
		c.Env = []string{"PATH=/mnt/dir/bin:" + os.Getenv("PATH"), "HOME=/mnt/dir/home"}
		return runs(t, bin, "bwrap", c)
	}
	for _, inner := range []string{
		"nsrun --ro-bind / / true", "nsrun --unshare-all --ro-bind / / --dev /dev --tmpfs /mnt --dir /mnt/d --ro-bind-data 3 /mnt/f true 3< ../data", "nsrun --ro-bind / / --tmpfs /mnt --file 3 /mnt/g true 3< ../data",
		"nsrun --ro-bind / / --overlay-src /usr --tmp-overlay /mnt true", "nsrun --ro-bind / / --seccomp 3 true 3< ../filter", "nsrun run touch x", "nsrun commit", "nsrun run --direct touch x", "nsrun ls", "nsrun doctor > ../doctor",
		"nsrun run --commit --timeout 5m --report ../report touch y",
	} {
		if err := os.WriteFile(filepath.Join(dir, "filter"), []byte{6, 0, 0, 0, 0, 0, 0xff, 0x7f}, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := under(inner + " || exit 9"); got.status != 0 {
			t.Errorf("%s: status %d\n%s", inner, got.status, got.out)
		}
	}
	for _, control := range []string{"rm $(mktemp)", "mkdir /dev/shm/x; rmdir /dev/shm/x"} {
		if got := under(control); got.status != 1 || !strings.Contains(got.out, "differ") {
			t.Errorf("the control, %s: status %d\n%s", control, got.status, got.out)
		}
	}
}

// TestForgedReports: where bwrap's options leave PID 1 open, the command may write to its descriptors. That ends or
// confuses only the command itself. nsrun run leaves nothing open.
func TestForgedReports(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "p/", "home/")
	victim := exec.Command("sleep", "1000")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = victim.Wait() }()
	defer func() { _ = victim.Process.Kill() }()
	number := make([]byte, 4)
	binary.NativeEndian.PutUint32(number, uint32(victim.Process.Pid))
	octal := ""
	for _, b := range number {
		octal += fmt.Sprintf(`\%o`, b)
	}
	// Each a record: a process id, a failure, a start, an end, a text without an end.
	forge := "for f in /proc/1/fd/*; do "
	for _, record := range []string{`\1\0\0\0` + octal + `\0\0\0\0\0\0\0\0`, `\5\0\0\0\377\377\377\377\0\0\0\0\0\0\0\0`, `\2\0\0\0\377\377\377\177\377\377\377\177\377\377\377\177`, `\3\0\0\0` + octal + `\0\0\0\0\0\0\0\0`, `\4\0\0\0\0\7\0\0\0\0\0\0\0\0\0\0`} {
		forge += "printf '" + record + "' > $f && echo forged; "
	}
	forge += "done 2>&-; exit 7"
	for _, args := range [][]string{
		{"nsrun", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc"},
		{"nsrun", "--unshare-all", "--forward-signals", "--kill-on-exit", "--ro-bind", "/", "/", "--proc", "/proc"},
		{"nsrun", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc"},
		{"nsrun", "run"}, {"nsrun", "run", "--direct", "--timeout", "10m"},
	} {
		for range 10 {
			c := command(append(args[1:], "sh", "-c", forge)...)
			c.Dir = filepath.Join(dir, "p")
			c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home")}
			got := runs(t, bin, args[0], c)
			// It may give itself another end, or say that it failed to begin, or have nobody
			// left to write to.
			own := []int{7, 1, 128 + int(unix.SIGPIPE)}
			if args[1] == "run" && (got.status != 7 || got.out != "") || !slices.Contains(own, got.status) {
				t.Errorf("%q: status %d\n%s", args, got.status, got.out)
			}
		}
	}
	if !testenv.Alive(victim.Process.Pid) {
		t.Error("another process was killed")
	}
	// Control: the first of them could be forged at all.
	if got := runs(t, bin, "nsrun", command("--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "sh", "-c", forge)); !strings.Contains(got.out, "forged") {
		t.Errorf("the control: status %d\n%s", got.status, got.out)
	}
}

// TestMonitorIsClosed: root without capabilities, in a sandbox that sees the caller's
// processes and has its user namespace, does not get out through the nsrun process
// outside, which may have no more capabilities than it. (For others the user namespace
// of the sandbox is in the way.)
func TestMonitorIsClosed(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "victim/file: x")
	victim := filepath.Join(dir, "victim")
	before := testenv.Listing(t, victim)
	// Each of its threads has capabilities of its own.
	attack := "for t in /proc/$PPID /proc/$PPID/task/*; do for way in root cwd; do { echo overwritten > $t/$way" + victim + "/file; } 2>&- && echo written by $way; done; " +
		"cat $t/exe >/dev/null 2>&1 && echo opened; done; echo done"
	parent := "sleep 0.05; " + attack // the one outside has got its work done
	for range 5 {
		for _, args := range [][]string{
			{"--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev"},
			{"--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--die-with-parent", "--new-session"},
			{"--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--unshare-net", "--unshare-ipc"},
		} {
			for _, script := range []string{attack, parent} {
				got := runs(t, bin, "nsrun", command(append(args, "sh", "-c", script)...))
				if got.out != "done\n" {
					t.Errorf("%q: status %d\n%s", args, got.status, got.out)
				}
				if d := testenv.Difference(t, victim, before); d != "" {
					t.Fatalf("%q: changed: %s", args, d)
				}
			}
		}
	}
	// Control: through a process that is not closed it would.
	control := "sleep 100 & echo overwritten > /proc/$!/root" + victim + "/file; kill $!"
	if got := runs(t, bin, "nsrun", command("--bind", "/", "/", "--dev", "/dev", "sh", "-c", control)); testenv.Difference(t, victim, before) == "" {
		t.Errorf("the control: status %d\n%s", got.status, got.out)
	}
}
