//go:build linux

package nsrun_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/nsexec"
)

// allowed is a Config with a flag of nsrun run more.
func allowed(t *testing.T, c nsrun.Config, flag string) nsrun.Config {
	t.Helper()
	name, value, _ := strings.Cut(flag, " ")
	switch name {
	case "--ro":
		c.Rules = append(slices.Clip(c.Rules), nsrun.Rule{Mode: nsrun.ReadOnly, Pattern: value})
	case "--own-ids":
		c.OwnIDs = true
		return allowed(t, c, value)
	case "--rw":
		c.Rules = append(slices.Clip(c.Rules), nsrun.Rule{Mode: nsrun.Direct, Pattern: value})
	case "--allow-unix":
		c.AllowUnix = append(slices.Clip(c.AllowUnix), value)
	case "--allow-net":
		c.Net.Rules = append(slices.Clip(c.Net.Rules), netpolicy.MustParse(value).Rules...)
	default:
		t.Fatalf("flag %q", flag)
	}
	return c
}

// refusing makes a place for commands that are refused something: the directory with the project in it is read-only.
func refusing(t *testing.T) (dir string, c nsrun.Config) {
	top := place(t, "a", "s => a")
	if b, err := exec.Command("tar", "cf", filepath.Join(top, "p/t.tar"), "-C", filepath.Join(top, "p"), "a").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	testenv.Tree(t, top, "host/", "host/hidden/", "home/.ssh/")
	dir = filepath.Join(top, "host")
	for _, name := range []string{"../home/.ssh/id", "hidden/f", "secret.env"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("true\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("unix", filepath.Join(dir, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	return dir, nsrun.Config{
		Project: filepath.Join(top, "p"), After: nsrun.Discard,
		Shared: []nsrun.Folder{{Path: dir, Mode: nsrun.ReadOnly}, {Path: filepath.Join(top, "home"), Mode: nsrun.ReadOnly}},
		Rules:  []nsrun.Rule{{Mode: nsrun.Blocked, Pattern: filepath.Join(dir, "hidden")}, {Mode: nsrun.Blocked, Pattern: filepath.Join(dir, "secret.env")}},
	}
}

// passing makes a request for a command line. Its standard error is a file of the caller's, which nsrun does not read,
// or is read by nsrun.
func passing(t *testing.T, command string, through bool) nsrun.Request {
	if !through || !features.Has(features.KillableCalls) {
		return nsrun.Request{Command: command}
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return nsrun.Request{Command: command, Passthrough: true, Stderr: f}
}

// TestRefusals: for a command that is refused something, nsrun names a flag, and the command works with it.
func TestRefusals(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := refusing(t)
	for i, q := range []struct{ command, kind, rule string }{
		// Writes.
		{"touch $D/ro/new", "write", "read-only"}, {"mkdir $D/ro/new", "write", "read-only"},
		{"cp a $D/ro/new", "write", "read-only"}, {"mv a $D/ro/new", "write", "read-only"}, {"rm $D/ro/f", "write", "read-only"},
		{"rm -r $D/ro/d/f", "write", "read-only"}, {"rmdir $D/ro/d", "write", "read-only"}, {"ln -s a $D/ro/new", "write", "read-only"},
		{"echo x | tee $D/ro/f", "write", "read-only"}, {"echo x >$D/ro/f", "write", "read-only"}, {"echo x >$D/ro/new", "write", "read-only"},
		{"dd if=/dev/null of=$D/ro/new", "write", "read-only"}, {"chmod 700 $D/ro/f", "write", "read-only"}, {"install a $D/ro/new", "write", "read-only"},
		{"truncate -s 0 $D/ro/f", "write", "read-only"}, {"sed -i s/a/b/ $D/ro/f", "write", "read-only"}, {"touch ../ro/new", "write", "read-only"},
		{"bash -c 'echo x >$D/ro/new'", "write", "read-only"}, {"mkfifo $D/ro/new", "write", "read-only"}, {"cp a '../ro/two words'", "write", "read-only"},
		{"mktemp -p $D/ro/", "write", "read-only"}, {`python3 -c 'import os; os.rename("../ro/f", "../ro/g")'`, "write", "read-only"},
		// Reads.
		{"cat ~/.ssh/id", "read", "secret"}, {"head $H/.ssh/id", "read", "secret"}, {"ls ~/.ssh/id", "read", "secret"}, {"wc $H/.ssh/id", "read", "secret"},
		{"cp ~/.ssh/id new", "read", "secret"}, {"grep t ~/.ssh/id", "read", "secret"}, {"sha256sum ~/.ssh/id", "read", "secret"},
		{"sort <~/.ssh/id", "read", "secret"}, {"find ~/.ssh/id -name id -fprint /dev/stdout", "read", "secret"},
		{"cat $D/hidden/f", "read", "blocked"}, {"ls $D/hidden", "read", "blocked"}, {". $D/hidden/f", "read", "blocked"}, {"cat $D/secret.env", "read", "blocked"},
		{"od $D/secret.env", "read", "blocked"}, {"tail $D/secret.env", "read", "blocked"}, {"nl $D/secret.env", "read", "blocked"},
		{"bash $D/hidden/f", "read", "blocked"}, {"stat $D/hidden/f", "read", "blocked"}, {"tar cf new $D/hidden/f", "read", "blocked"},
		{"cat ~/.ssh/id 2>&- || { echo Error: open ENOENT $H/.ssh/id >&2; false; }", "read", "secret"},
		// What is refused next is thought of.
		{"test -e $D/ro/d/f; rmdir $D/ro/d 2>/dev/null || rm -r $D/ro/d", "write", "read-only"}, {"test -e $D/ro/d/f; rm -r $D/ro/d", "write", "read-only"},
		{"test -e $D/ro/d/f; rm --force --recursive ../ro/d", "write", "read-only"},
		{`test -e $D/ro/d/f; python3 -c 'import shutil; shutil.rmtree("$D/ro/d")'`, "write", "read-only"}, {`python3 -c 'import shutil; shutil.rmtree("$D/ro/d")'`, "write", "read-only"},
		{`python3 -c 'import os; os.rmdir("$D/ro/d")'`, "write", "read-only"},
		// The message does not say what, or what was done.
		{"tar xf t.tar -C $D/ro/", "write", "read-only"}, {`python3 -c 'import os; os.utime("$D/ro/f")'`, "write", "read-only"},
		{`python3 -c 'import os; os.remove("$D/ro/f")'`, "write", "read-only"}, {`echo 'open("'$D'/ro/f").close(); import os; os.unlink("'$D'/ro/f")' >x.py; python3 x.py`, "write", "read-only"},
		{`python3 -c 'import os; os.mkfifo("$D/ro/new")'`, "write", "read-only"}, {"python3 -c 'import os, sys\ntry: os.unlink(\"$D/ro/f\")\nexcept OSError as e: sys.exit(\"unlink: \" + e.strerror)'", "write", "read-only"},
		{"cd $D/ro/ && tar xf $OLDPWD/t.tar", "write", "read-only"}, {"echo \"mkdir($D/ro/new)\" >&2; mkdir $D/ro/new", "write", "read-only"},
	} {
		if !testenv.Turn(i) {
			continue
		}
		t.Run(q.command, func(t *testing.T) {
			t.Parallel()
			c := c
			own := fmt.Sprintf("ro%d", i) // which is written to
			testenv.Tree(t, dir, own+"/", own+"/f", own+"/d/")
			if strings.Contains(q.command, "d/f") {
				testenv.Tree(t, dir, own+"/d/f")
			}
			command := strings.NewReplacer("$D", dir, "$H", filepath.Join(filepath.Dir(dir), "home"), "../ro", "../host/"+own, "ro/", own+"/").Replace(q.command)
			refusal := func(t *testing.T) nsrun.Refusal {
				res, err := runner(t, c).Run(t.Context(), passing(t, command, i%4 != 1))
				if err != nil || res.ExitCode == 0 || len(res.Refusals) == 0 {
					t.Fatalf("why %t: %v, %+v: %s", c.Why, err, res.Refusals, res)
				}
				r := res.Refusals[0]
				if string(r.Kind) != q.kind || r.Rule != q.rule || r.Flag == "" || r.Count == 0 || r.Failed != c.Why || (r.PID > 1) != c.Why || (r.Program == "") == c.Why {
					t.Errorf("why %t: %+v: %s", c.Why, r, res)
				}
				return r
			}
			if i%4 == 0 || testenv.Long() {
				c.Why = true
				t.Run("why", func(t *testing.T) {
					needFor(t, c)
					refusal(t)
				})
				c.Why = false
			}
			r := refusal(t)
			with := allowed(t, c, strings.ReplaceAll(r.Flag, "'", ""))
			if i%3 == 0 { // the program asks for it
				rule, ok := r.PathRule()
				with = c
				with.Approver = yes{}
				if res, err := runner(t, with).Run(t.Context(), nsrun.Request{Command: command, Paths: []nsrun.Rule{rule}}); !ok || err != nil || res.ExitCode != 0 {
					t.Errorf("with %v: %v, %s", rule, err, res)
				}
				return
			}
			if res, err := runner(t, with).Run(t.Context(), nsrun.Request{Command: command}); err != nil || res.ExitCode != 0 {
				t.Errorf("with %s: %v, %s", r.Flag, err, res)
			}
		})
	}
}

// TestRefusedDatabase: SQLite does not say which database it cannot write to. The flag is for the directory, in which
// it makes a journal.
func TestRefusedDatabase(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	if _, err := exec.LookPath("sqlite3"); err != nil {
		testenv.Skip(t, "sqlite3", err.Error())
	}
	dir, c := refusing(t)
	testenv.Tree(t, dir, "db/")
	db := filepath.Join(dir, "db", "x")
	if b, err := exec.Command("sqlite3", db, "create table t(a)").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	for _, command := range []string{"sqlite3 " + db + " 'insert into t values(1)'", "sqlite3 ../host/db/x 'insert into t values(2)'"} {
		var res nsrun.Result
		for _, c.Why = range []bool{true, false} {
			needFor(t, c)
			var err error
			res, err = runner(t, c).Run(t.Context(), passing(t, command, true))
			if err != nil || len(res.Refusals) == 0 || res.Refusals[0].Flag != "--rw "+filepath.Dir(db) || res.Refusals[0].Failed != c.Why {
				t.Fatalf("%s, why %t: %v, %+v: %s", command, c.Why, err, res.Refusals, res)
			}
		}
		if res, err := runner(t, allowed(t, c, res.Refusals[0].Flag)).Run(t.Context(), nsrun.Request{Command: command}); err != nil || res.ExitCode != 0 {
			t.Errorf("%s with %s: %v, %s", command, "--rw", err, res)
		}
	}
	// It has a reason of its own.
	res, err := runner(t, c).Run(t.Context(), passing(t, "sqlite3 -readonly new 'create table t(a)'; echo attempt to write a readonly database >&2; false", true))
	if err != nil || len(res.Refusals) != 0 {
		t.Errorf("in the project: %v, %+v", err, res.Refusals)
	}
}

// TestNoRefusals: if a program fails for a reason of its own, no rule is blamed.
func TestNoRefusals(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := refusing(t)
	for i, command := range []string{
		"false", "exit 3", "kill -9 $$", "no-such-program", "./no-such-program", "cat no-such-file", "cat /no/such/file", "cat $D/sub/none",
		"ls $D/none", "cat /usr/none", "cat /tmp/none", "rm none", "rm /tmp/none", "cd none", "cat a/b", "cat .", "cat $D", "mkdir a",
		"touch f; chmod 0 f; cat f", "mkdir d; chmod 0 d; ls d", "touch f; chmod 0 f; ./f", "./a", "mkdir d; chmod 500 d; touch d/f", "/tmp/x",
		"mkdir d; touch d/f; rmdir d", "ln -s s2 s1; ln -s s1 s2; cat s1", "grep nothing a", "test -e none", "diff a /dev/zero -q | false",
		"touch /proc/none", "echo x >/proc/version", "cat /dev/none", "mknod n c 1 3; cat n; false", "mount -t tmpfs x /tmp",
		"bash -c ': </dev/tcp/127.0.0.1/9'", "cp a none/b", "mv none b", "sh -c 'exit 1'", "sleep x", "tar xf a", "sort none",
		"python3 -c 'open(\"none\")'", "echo 'everything is fine: Permission denied' >&2; false", "echo '/usr/bin: No such file or directory' >&2; false",
		"echo '/usr/bin/env: Permission denied' >&2; false", "echo 'a: Read-only file system' >&2; false", "tar xf none -C $D",
		`perl -MSocket -e 'socket(S, PF_INET, SOCK_DGRAM, 0); connect(S, sockaddr_in(53, inet_aton("192.0.2.1"))); print STDERR "*** Please tell me who you are.\n\nfatal: unable to detect\n"; exit 1'`, "touch /etc/shadow-none/x; cat $D/none/f/x",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			q := passing(t, strings.ReplaceAll(command, "$D", dir), i%4 != 1)
			c := c
			for _, c.Why = range [...]bool{false, true} {
				if c.Why && i%4 != 0 && !testenv.Long() || os.Geteuid() == 0 && (strings.HasPrefix(command, "mount") || strings.HasPrefix(command, "mknod")) {
					continue // root may do that outside of a sandbox
				}
				needFor(t, c)
				res, err := runner(t, c).Run(t.Context(), q)
				if err != nil || len(res.Refusals) > 0 {
					t.Errorf("why %t: %v, %+v: %s", c.Why, err, res.Refusals, res)
				}
			}
		})
	}
	t.Run("own permissions", func(t *testing.T) {
		// Of a user; root's are root's privileges, which it has in a session only.
		f := filepath.Join(dir, "closed")
		if err := os.WriteFile(f, nil, 0); err != nil {
			t.Fatal(err)
		}
		c := c
		c.Mode = nsrun.ReadOnly
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: "cat " + f})
		want := ""
		if os.Geteuid() == 0 {
			want = "privileges"
		}
		got := ""
		for _, r := range res.Refusals {
			got += r.Rule
		}
		if err != nil || got != want {
			t.Errorf("%v, %+v", err, res.Refusals)
		}
	})
}

// TestRefusedNewFiles: for a file that could not be made in a directory of the host that the sandbox lacks, nsrun names
// the flag that makes the directory writable.
func TestRefusedNewFiles(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "a")
	testenv.Tree(t, dir, "new/")
	c := nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard}
	strict := c
	strict.Presets = []nsrun.Preset{nsrun.StrictPreset}
	for _, q := range []struct {
		command string
		named   bool
	}{
		{"touch $D/new/f", true}, {"echo x >$D/new/f", true}, {"cp a $D/new/f", true}, {"mkdir $D/new/f", true},
		{"ln -s a $D/new/f", true}, {"bash -c 'mkdir $D/new/f'", true}, {"mkfifo $D/new/f", true}, {"cat $D/new/f", false},
		{"touch $D/none/f", false}, {"mkdir $D/none/f", false}, {"cp none $D/new/f", false}, {"echo \"cannot create /none/f: No such file or directory\" >&2; false", false},
	} {
		for _, c := range [...]nsrun.Config{c, strict} {
			command := strings.ReplaceAll(q.command, "$D", dir)
			res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: command})
			if err != nil || res.ExitCode == 0 || (len(res.Refusals) > 0) != q.named {
				t.Errorf("%s, %v: %v, %+v: %s", command, c.Presets, err, res.Refusals, res)
			} else if q.named {
				r := res.Refusals[0]
				if r.Kind != nsrun.RefusedWrite || r.Flag != "--rw "+filepath.Join(dir, "new") {
					t.Errorf("%s: %+v", command, r)
				}
				if res, err := runner(t, allowed(t, c, r.Flag)).Run(t.Context(), nsrun.Request{Command: command}); err != nil || res.ExitCode != 0 {
					t.Errorf("%s with %s: %v, %s", command, r.Flag, err, res)
				}
				if err := os.RemoveAll(filepath.Join(dir, "new/f")); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestRedirectedMessages: only what a command that fails prints on its own standard error is looked at.
func TestRedirectedMessages(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := refusing(t)
	for command, want := range map[string]int{
		"cat ~/.ssh/id; false": 1, "(exec >&2; cat ~/.ssh/id 2>&1); false": 1, "exec 3>&2 2>/dev/null; cat ~/.ssh/id 2>&3; false": 1,
		"cat ~/.ssh/id 2>/dev/null; false": 0, "said=$(cat ~/.ssh/id 2>&1); false": 0, "touch $D/new 2>a; false": 0, "cat ~/.ssh/id; true": 0,
		"cat ~/.ssh/id 2>&-; false": 0, "touch $D/new 2>&1 | cat; false": 0, "mkfifo p; cat p & touch $D/new 2>p; wait; false": 0,
	} {
		for _, after := range []func(*nsrun.Config){func(*nsrun.Config) {}, func(c *nsrun.Config) {
			c.Shared = append(slices.Clip(c.Shared), nsrun.Folder{Path: c.Project, Mode: nsrun.Direct})
			c.Project = ""
		}, func(c *nsrun.Config) {
			*c = allowed(t, *c, "--allow-net tcp:192.0.2.9:1")
			c.Enforcer = nsrun.BrokerEnforcer
		}, func(c *nsrun.Config) { c.Limits.Output = 1 << 20 }} {
			c := c
			after(&c)
			res, err := runner(t, c).Run(t.Context(), passing(t, strings.ReplaceAll(command, "$D", dir), true))
			if err != nil || len(res.Refusals) != want {
				t.Errorf("%s, %+v: %v, %+v, want %d", command, c, err, res.Refusals, want)
			}
		}
	}
}

// TestRefused32Bit: a program with 32-bit system calls is reported; outside it exits with 3.
func TestRefused32Bit(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	program := filepath.Join(dir, "p/program")
	image := make([]byte, 0x54, 0x61)
	copy(image, "\x7fELF\x01\x01\x01")
	for at, word := range map[int]uint32{ // struct elf32_hdr, and behind it struct elf32_phdr
		16: 3<<16 | 2, 20: 1, 24: 0x8048054, 28: 0x34, 40: 32<<16 | 52, 44: 1,
		0x34: 1, 0x3c: 0x8048000, 0x40: 0x8048000, 0x44: 0x61, 0x48: 0x61, 0x4c: 5, 0x50: 0x1000,
	} {
		binary.LittleEndian.PutUint32(image[at:], word)
	}
	image = append(image, "\xb8\x01\x00\x00\x00\xbb\x03\x00\x00\x00\xcd\x80\xf4"...) // exit(3); hlt
	if err := os.WriteFile(program, image, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command(program).Run(); err == nil || err.Error() != "exit status 3" {
		t.Logf("this machine does not run it: %v", err)
		return
	}
	for _, why := range []bool{false, true} {
		c := nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, Why: why}
		needFor(t, c)
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Args: []string{"./program"}})
		if err != nil || res.Signal == nil || len(res.FileRefusals()) != 1 {
			t.Fatalf("%v, %+v: %s", err, res.Refusals, res)
		}
		if r := res.FileRefusals()[0]; r.Kind != nsrun.RefusedExec || r.Target != program || r.Rule != "seccomp" || r.Flag != "" || r.Failed != why {
			t.Errorf("%+v", r)
		}
	}
}

// TestRefusalsElsewhere: sockets, the network, programs and working directories that are hidden.
func TestRefusalsElsewhere(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := refusing(t)
	one := func(res nsrun.Result, kind nsrun.RefusalKind, flag string) {
		t.Helper()
		if len(res.Refusals) != 1 || res.Refusals[0].Kind != kind || res.Refusals[0].Flag != flag {
			t.Errorf("%+v: %s", res.Refusals, res)
		}
	}
	run := func(c nsrun.Config, q nsrun.Request) nsrun.Result {
		res, _ := runner(t, c).Run(t.Context(), q)
		return res
	}
	one(run(c, nsrun.Request{Args: []string{filepath.Join(dir, "hidden/f")}}), nsrun.RefusedExec, "--ro "+filepath.Join(dir, "hidden/f"))
	one(run(c, nsrun.Request{Args: []string{"true"}, WorkingDir: filepath.Join(dir, "hidden")}), nsrun.RefusedRead, "--ro "+filepath.Join(dir, "hidden"))
	if res := run(c, nsrun.Request{Args: []string{"/no/such/program"}}); len(res.Refusals) > 0 {
		t.Errorf("%+v", res.Refusals)
	}
	one(run(c, nsrun.Request{Command: "bash -c ': </dev/tcp/192.0.2.1/80'"}), nsrun.RefusedConnect, "--learn-net")
	t.Run("rules", func(t *testing.T) {
		c := allowed(t, c, "--allow-net tcp:192.0.2.9:1")
		c.Enforcer = nsrun.BrokerEnforcer
		needFor(t, c)
		one(run(c, nsrun.Request{Command: "bash -c ': </dev/tcp/192.0.2.1/80'"}), nsrun.RefusedConnect, "--allow-net tcp:192.0.2.1:80")
	})
	if _, err := exec.LookPath("python3"); err == nil {
		at := filepath.Join(dir, "sock")
		q := nsrun.Request{Args: []string{"python3", "-c", `
import socket, sys
try: socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except OSError as e: sys.exit("%s: %s" % (sys.argv[1], e.strerror))`, at}}
		one(run(c, q), nsrun.RefusedUnix, "--allow-unix "+at)
		if res := run(allowed(t, c, "--allow-unix "+at), q); res.ExitCode != 0 {
			t.Error(res)
		}
	}
}

// TestRefusedSignals: a signal to a process of the host by its number is reported. A number that a process of the
// sandbox had, or that no process has, is the command's own mistake.
func TestRefusedSignals(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	_, c := refusing(t)
	c.Why = true
	needFor(t, c)
	victim := exec.Command("sleep", "1000")
	victim.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = victim.Process.Kill(), victim.Wait() })
	number := victim.Process.Pid
	made := func() (n int) {
		b, err := os.ReadFile("/proc/stat")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(b), "\nprocesses ")
		if _, err := fmt.Sscan(rest, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for command, told := range map[string]bool{
		"kill $V": true, "kill -9 $V": true, "kill -0 $V": true, "kill -- -$V": true, "timeout 10 kill $V": true,
		"sleep 0 & p=$!; wait; kill $p": false, "kill 2147483647": false, "kill $$; false": false, "kill -s 99 $V": false, "kill x": false,
	} {
		before := made()
		command := "echo $$; " + strings.ReplaceAll(command, "$V", strconv.Itoa(number))
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: command})
		if err != nil {
			t.Errorf("%s: %v", command, err)
			continue
		}
		var own int
		if _, err := fmt.Sscan(res.Stdout.String(), &own); err != nil {
			t.Errorf("%s: %v: %s", command, err, res)
		}
		others := made() - before + 128
		if told && (others >= number || own-others <= number && number <= own+others) {
			continue // the number could be one of the sandbox's
		}
		if len(res.Refusals) != map[bool]int{true: 1}[told] {
			t.Errorf("%s: %+v: %s", command, res.Refusals, res)
		} else if told {
			if r := res.Refusals[0]; r.Kind != nsrun.RefusedSignal || r.Target != "process "+strconv.Itoa(number) || r.Flag != "" || !r.Failed || r.PID < 2 {
				t.Errorf("%s: %+v", command, r)
			}
		}
	}
	if err := victim.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the process of the host: %v", err)
	}
}

// TestRefusedServers: a server of this host at 127.0.0.1 is found in the message of a command that failed, whoever
// reads its standard error. Where the command says something else, or nothing listens there, or it may connect, or it
// has this host's loopback device, nothing is reported.
func TestRefusedServers(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	at, port := l.Addr().String(), strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	config := nsrun.Config{Project: filepath.Join(place(t), "p"), After: nsrun.Discard}
	needFor(t, config)
	say := func(message string) string { return `: "${unset:?` + message + `}"` }
	for _, c := range []struct {
		command string
		found   bool
	}{
		{"bash -c ': </dev/tcp/127.0.0.1/" + port + "'", true},
		{say("Error: connect ECONNREFUSED " + at), true},
		{say("curl: (7) Failed to connect to localhost port " + port + " after 0 ms: Couldn't connect to server"), true},
		{": http://" + at + "/; " + say("ConnectionRefusedError: [Errno 111] Connection refused"), true},
		{say("cannot read " + at), false},
		{say("connect ECONNREFUSED " + free.Addr().String()), false},
		{"echo ECONNREFUSED " + at + " >&2", false},
	} {
		for _, through := range []bool{false, true} {
			res, err := runner(t, config).Run(t.Context(), passing(t, c.command, through))
			if err != nil || len(res.Refusals) > 1 || (len(res.Refusals) == 1) != c.found {
				t.Errorf("%s, %v: %v, %+v", c.command, through, err, res.Refusals)
				continue
			}
			if c.found && res.Refusals[0].String() != "connect tcp "+at+": the loopback device is the sandbox's own (try: --allow-net tcp:"+at+")" {
				t.Errorf("%s: %s", c.command, res.Refusals[0])
			}
		}
	}
	rules := allowed(t, config, "--allow-net tcp:"+at)
	needFor(t, rules)
	res, err := runner(t, rules).Run(t.Context(), nsrun.Request{Command: say("connect ECONNREFUSED " + at)})
	if err != nil || len(res.Refusals) > 0 {
		t.Errorf("it may connect: %v, %+v", err, res.Refusals)
	}
}
