//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
)

// refusing is a directory in which commands are refused access to some names: read-only, hidden, and secret ones.
func refusing(t *testing.T) (bin, dir string) {
	bin, dir = installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, "p/", "p/a: text", "p/x.c: int main(void){return 0;}", "p/bad.c: nothing", "p/Makefile: all:\n\tfalse\nnew:\n\ttouch $(TO)/new\n",
		"home/.ssh/", "home/.ssh/id: s", "host/hidden/", "host/hidden/f: s", "host/hidden/Makefile: all:\n", "host/hidden/m.js: 1", "host/hidden/m.py: 1", "host/hidden/x.c: int main(void){return 0;}",
		"host/secret.env: A=1")
	testenv.Tree(t, dir, "host/ro/", "host/ro/f: s", "host/ro/d/")
	if err := os.WriteFile(filepath.Join(dir, "host/hidden/prog"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "host/sock"))
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
	return bin, dir
}

// why runs a shell's command with --why, and returns its status, what it was refused and what nsrun said.
func why(t *testing.T, bin, dir, command string, flags ...string) (status int, denied []nsrun.Refusal, said string) {
	t.Helper()
	status, denied, said, _ = whyAll(t, bin, dir, command, flags...)
	return status, denied, said
}

// whyAll is why, with what nsrun said of the network.
func whyAll(t *testing.T, bin, dir, command string, flags ...string) (status int, denied []nsrun.Refusal, said, network string) {
	t.Helper()
	host := filepath.Join(dir, "host")
	report := filepath.Join(testenv.Dir(t), "report")
	args := append([]string{"", "run", "--why", "--discard", "--report", report, "--ro", host, "--ro", filepath.Join(dir, "home"),
		"--block", filepath.Join(host, "hidden"), "--block", filepath.Join(host, "secret.env")}, flags...)
	c := exec.Command("/", append(args, "-c", strings.ReplaceAll(command, "$D", host))[1:]...)
	c.Dir = filepath.Join(dir, "p")
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "LANG=C.UTF-8"}
	r := runs(t, bin, "nsrun", c)
	b, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var rep struct{ Denied []nsrun.Refusal }
	if err := json.Unmarshal(b, &rep); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(r.out) {
		if strings.HasPrefix(line, "nsrun: denied: ") {
			said += line
		}
		if strings.HasPrefix(line, "nsrun: network: ") {
			network += line
		}
	}
	return r.status, rep.Denied, said, network
}

// quickly is which of many cases are run usually.
func quickly(i int) bool { return testenv.Long() || i%6 == 0 && !testenv.Again() || i%18 == 0 }

// watching is a command that asks inotify(7) about what is hidden.
const watching = `python3 -c 'import ctypes, sys
libc = ctypes.CDLL(None)
sys.exit(libc.inotify_add_watch(libc.inotify_init(), b"$D/hidden/f", 2) < 0)'`

// TestWhy: what a command is refused is named with a flag, whatever the command says of it, and with the flag it works.
func TestWhy(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := refusing(t)
	py := func(code string) string { return "python3 -c '" + code + "'" }
	for i, command := range []string{
		// Writes.
		py(`open("$D/ro/new","w")`), py(`import os; os.mkdir("$D/ro/new")`), py(`import os; os.unlink("$D/ro/f")`), py(`import os; os.chmod("$D/ro/f", 0o700)`),
		py(`import os; os.utime("$D/ro/f")`), py(`import os; os.symlink("x", "$D/ro/new")`), py(`import os, socket; os.chdir("$D/ro"); socket.socket(socket.AF_UNIX).bind("new")`),
		py(`import os; os.rename("$D/ro/f", "$D/ro/new")`),
		py(`import shutil; shutil.copy("a", "$D/ro/new")`), py(`import shutil; shutil.rmtree("$D/ro/d")`), py("import sys\ntry: open(\"$D/ro/new\", \"w\")\nexcept OSError: sys.exit(9)"),
		`perl -e 'open(F, ">", "$D/ro/new") or die'`, `perl -e 'mkdir("$D/ro/new") or exit 2'`, `perl -e 'unlink("$D/ro/f") or exit 2'`,
		`node -e 'require("fs").writeFileSync("$D/ro/new", "x")'`, `node -e 'try { require("fs").mkdirSync("$D/ro/new") } catch { process.exit(5) }'`,
		"git init -q $D/ro/new", "git config -f $D/ro/f a.b c", "tar cf $D/ro/new a", "tar cf t a && tar xf t -C $D/ro", "rsync a $D/ro/new", "gcc -o $D/ro/new x.c",
		"make -s TO=$D/ro new", "touch $D/ro/new 2>&-", "touch $D/ro/new 2>&- || { echo Zugriff verweigert >&2; exit 7; }", "sort -o $D/ro/new a 2>&-",
		`awk 'BEGIN { print >"$D/ro/new"; close("$D/ro/new") }'`, "cp -r . $D/ro/new", "gzip $D/ro/f", "find $D/ro/f -delete", "[ -w $D/ro ] || exit 4", "split a $D/ro/new", "mv a $D/ro/new",
		"rsync -a ./ $D/ro/new/", py("import errno, os, sys\ntry: os.removexattr(\"$D/ro/f\", \"user.x\")\nexcept OSError as e: sys.exit(e.errno != errno.ENODATA)"),
		// Reads.
		py(`open("$D/hidden/f")`), py(`import os; os.listdir("$D/hidden")`), py(`exec(open("$D/secret.env").read())`), `perl -e 'open(F, "<", "$D/hidden/f") or exit 2'`,
		`node -e 'require("$D/hidden/m.js")'`, "git hash-object ~/.ssh/id", "gcc -c $D/hidden/x.c", "make -f $D/hidden/Makefile", "rsync ~/.ssh/id new", "tar cf new ~/.ssh",
		"diff a $D/hidden/f 2>&- >&- && false || [ -e $D/hidden/f ]", "[ -r $D/secret.env ] || exit 3", "cd $D/hidden 2>&-", ". $D/secret.env",
		py(`import os; os.statvfs("$D/hidden/f")`), watching, "gcc -c -I $D/hidden x.c", "touch $D/hidden/new", "echo >~/.ssh/new", "mkdir ~/.ssh/dir", "PYTHONPATH=$D/hidden python3 -c \"import m\"",
		// Programs and sockets.
		"touch $D/ro/new >&- 2>&- || { rm -f b; echo sorry >&2; exit 7; }", "(touch $D/ro/new) || exit 2", "cat $D/hidden/f | grep s", "sh -c \"sh -c 'cat $D/hidden/f'\"",
		py(`import os, sys; os.access("$D/ro", os.W_OK) or sys.exit("not writable")`), py(`import subprocess; subprocess.run(["touch", "$D/ro/new"], check=True)`),
		py(`import sqlite3; sqlite3.connect("$D/ro/new").execute("create table t(a)")`),
		"env $D/hidden/prog 2>&-", py(`import subprocess; subprocess.run(["$D/hidden/prog"], check=True)`),
		py(`import socket; socket.socket(socket.AF_UNIX).connect("$D/sock")`), `node -e 'require("net").connect("$D/sock").on("error", () => process.exit(6)).on("connect", () => process.exit())'`,
	} {
		if program := strings.Fields(command)[0]; slices.Contains(strings.Fields("python3 perl node git tar rsync gcc make"), program) {
			if ok, err := have(program); err != nil {
				t.Error(err)
				continue
			} else if !ok {
				continue
			}
		}
		if !quickly(i) {
			continue
		}
		t.Run(command, func(t *testing.T) {
			own := fmt.Sprintf("ro%d", i) // which is written to
			testenv.Tree(t, dir, "host/"+own+"/", "host/"+own+"/f: s", "host/"+own+"/d/")
			command := strings.ReplaceAll(command, "$D/ro", "$D/"+own)
			status, denied, said := why(t, bin, dir, command)
			first, _, _ := strings.Cut(said, "\n")
			_, flag, ok := strings.Cut(strings.TrimSuffix(first, ")"), " (try: ")
			if status == 0 || !ok || len(denied) == 0 || !strings.Contains(flag, dir) && !strings.Contains(flag, "~") {
				t.Fatalf("status %d, %+v: %q", status, denied, said)
			}
			if d := denied[0]; !d.Failed || d.Flag != flag || d.PID < 2 || d.Program == "" || d.Count == 0 {
				t.Errorf("%+v: %q", d, said)
			}
			name, value, _ := strings.Cut(flag, " ")
			if status, denied, _ := why(t, bin, dir, command, name, value); status != 0 {
				t.Errorf("with the flag %s: status %d, %+v", flag, status, denied)
			}
		})
	}
}

// TestWhyOwners: if root's command gives a file away, or becomes another user, and cannot, nsrun names --own-ids.
func TestWhyOwners(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.Leaks(t, reap)
	bin, dir := refusing(t)
	for _, tt := range []struct {
		command string
		told    bool
	}{
		{"chown 1234 a", true}, {"chown :1234 a", true}, {"chown 0:0 a", false}, {"setpriv --reuid 1234 true", true}, {"setpriv --clear-groups true", true}, {"chown 1234 none", false},
		{"python3 -c 'import os; os.fchown(os.open(\"a\", 0), 1234, -1)'", true}, {"python3 -c 'import os; os.lchown(\"a\", 1234, 1)'", true}, {"chown 1234 a 2>&-; cat none", false},
		{"python3 -c 'import os; os.setresgid(-1, 0, -1); os.setuid(0); os._exit(3)'", false}, {"chown 1234 a 2>&- || exit 4", true},
	} {
		_, denied, said := why(t, bin, dir, tt.command, "--rw", filepath.Join(dir, "host/ro"))
		if got := strings.Count(said, "\n") == 1 && strings.HasSuffix(said, "(try: --own-ids)\n"); got != tt.told || !tt.told && said != "" {
			t.Errorf("%s: %q, %+v", tt.command, said, denied)
		}
	}
}

// TestWhyEnds: nothing ends before the command does. The thread that observes root's command can be the sandbox's
// parent, whose end the sandbox does not survive. (Whether it is differs from run to run.)
func TestWhyEnds(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.Leaks(t, reap)
	bin, dir := refusing(t)
	for range 40 {
		if status, _, said := why(t, bin, dir, "exit 3", "--own-ids"); status != 3 {
			if strings.Contains(said, "own ids") {
				testenv.Skip(t, "own ids", said)
				return
			}
			t.Fatalf("status %d: %s", status, said)
		}
	}
}

// TestWhyElse: refusals of other kinds are reported, with a flag or without one.
func TestWhyElse(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := refusing(t)
	name := filepath.Base(dir) // a name that nobody else has
	l, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	connect := func(name string) string {
		return `python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("\0` + name + `")'`
	}
	attach := fmt.Sprintf("python3 -c 'import ctypes, sys; sys.exit(-ctypes.CDLL(None).ptrace(0x4206, %d, 0, 0))'", other.Process.Pid)
	const icmp, unprivileged = `python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)'`, "root has no privileges in the sandbox"
	const ring = `python3 -c 'import ctypes, os; ctypes.CDLL(None).syscall(425, 1, bytes(120)); `
	root := os.Getuid() == 0
	for _, tt := range []struct {
		command, want string // empty: nothing is reported
		rules, root   bool
	}{
		{connect(name), "connection to @" + name + ": abstract sockets of the host belong to its own network (try: --net host --allow-unix @)", false, false},
		{connect("none" + name), "", false, false},
		{attach, "reach no process outside", false, false},
		{icmp, "ping uses ICMP, and only the host's network has it", true, true},
		{"python3 -c 'import socket, os; socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 1); os._exit(1)'", "", true, false},
		{ring + "os._exit(1)'", "system call io_uring_setup: commands in a sandbox may not do this", false, false},
		{ring + "open(\"none\")'", "", false, false},
		{"mknod d c 1 3", "system call mknod: " + unprivileged, false, true}, {"mknod d p", "", false, true}, {"mkdir d; mknod d c 1 3; cat none", "", false, true},
		{"python3 -c 'import os; os.setpriority(0, 0, -1)'", "system call setpriority: " + unprivileged, false, true},
		{"unshare -m true", "may not make namespaces: run nsrun as an ordinary user, with --allow-userns", false, true},
	} {
		if tt.root && !root {
			continue
		}
		var flags []string
		if tt.rules {
			flags = []string{"--allow-net", "no.example"}
		}
		status, denied, said := why(t, bin, dir, tt.command, flags...)
		// The sandbox counts from a random number, so a process of its own can have had the number of the other one.
		for tries := 0; tt.command == attach && said == "" && tries < 3; tries++ {
			status, denied, said = why(t, bin, dir, tt.command, flags...)
		}
		if (tt.want == "") != (said == "") || !strings.Contains(said, tt.want) || tt.want != "" && status == 0 {
			t.Errorf("%s: status %d, %+v: %q", tt.command, status, denied, said)
		}
	}
	// No rule lets ping(8) work.
	if _, err := exec.LookPath("ping"); err != nil {
		testenv.Skip(t, "ping", "not installed")
	}
	if status, _, _, network := whyAll(t, bin, dir, "ping -c1 -W1 192.0.2.9"); status == 0 || !strings.HasPrefix(network, "nsrun: network: ping uses ICMP") || strings.Contains(network, "--allow-net") {
		t.Errorf("status %d: %q", status, network)
	}
	if _, _, _, network := whyAll(t, bin, dir, "ping -c1 -W1 192.0.2.9; python3 -c 'import socket; socket.create_connection((\"192.0.2.9\", 80))'"); !strings.Contains(network, "--allow-net") {
		t.Errorf("another program beside ping: %q", network)
	}
}

// TestWhyAcross: a rename that fails because two rules make two mounts is reported, with a rule that covers both paths.
func TestWhyAcross(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := refusing(t)
	testenv.Tree(t, dir, "host/u/", "host/u/f: s", "host/u/g: s", "host/v/")
	host := filepath.Join(dir, "host")
	for _, command := range []string{`perl -e 'rename("$D/u/f", "$D/v/f") or exit 2'`, `perl -e 'link("$D/u/g", "$D/v/g") or exit 2'`} {
		status, _, said := why(t, bin, dir, command, "--rw", host+"/u", "--rw", host+"/v")
		if want := " (try: --rw " + host + ")\n"; status != 2 || !strings.HasSuffix(said, want) {
			t.Errorf("%s: status %d, %q", command, status, said)
		}
		if status, denied, _ := why(t, bin, dir, command, "--rw", host+"/u", "--rw", host+"/v", "--rw", host); status != 0 {
			t.Errorf("%s: with the flag: status %d, %+v", command, status, denied)
		}
	}
	// No rule can make one mount of the project and something else.
	commands := []string{`perl -e 'rename("a", "$D/v/a") or exit 2'`, "ln a $D/v/a", `python3 -c 'import os; os.rename("a", "$D/ro/new")'`}
	var here, tmp unix.Stat_t
	if unix.Stat(dir, &here) == nil && unix.Stat("/tmp", &tmp) == nil && here.Dev == tmp.Dev {
		commands = append(commands, "ln a /tmp/a")
	}
	for _, command := range commands {
		status, denied, said := why(t, bin, dir, command, "--rw", host+"/v")
		if status == 0 || !strings.HasSuffix(said, "because they are different mounts, and no flag makes them one: copy instead\n") {
			t.Errorf("%s: status %d, %+v: %q", command, status, denied, said)
		}
	}
	// Outside a sandbox these fail, too, or they fail for another reason.
	for _, command := range []string{"ln a /dev/shm/a", `perl -e 'rename("none", "$D/v/a") or exit 2'`, "ln none $D/v/a", "ln a $D/v/a; cat none", "ln a $D/v/f", "mv a $D/v/a; exit 3"} {
		if status, denied, said := why(t, bin, dir, command, "--rw", host+"/v", "--rw", host+"/u"); status == 0 || said != "" {
			t.Errorf("%s: status %d, %+v: %q", command, status, denied, said)
		}
	}
}

// TestWhyNot: for a program that fails for another reason, nsrun reports no rule.
func TestWhyNot(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := refusing(t)
	testenv.Tree(t, dir, "host/ro/d/m.py: x = 1\n")
	py := func(code string) string { return "python3 -c '" + code + "'" }
	for i, command := range []string{
		"exit 3", "false", "kill -9 $$", "no-such-program", "python3 -c 'raise SystemExit(3)'", "python3 -c 'open(\"none\")'", "python3 -c 'import no_such_module'", "python3 none.py",
		"python3 -c 'open(\"a/b\")'", "python3 -c 'import os; os.mkdir(\"a\")'",
		"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 9))'", "python3 -c 'import os; os.kill(99999, 9)'",
		"node -e 'process.exit(2)'", "node -e 'require(\"none\")'", "node -e 'require(\"fs\").readFileSync(\"none\")'", "node none.js", "perl -e die", "perl none", "perl -e 'open(F, \"<\", \"/none\") or die'",
		"git status none --bad", "git checkout none", "git log", "git diff --no-index a x.c", "gcc bad.c", "gcc none.c", "make -s", "make none", "make -s none 2>&-", "tar xf none", "tar xf a", "rsync none new",
		"test -e none", "grep nothing a", "find none", "sed -e bad a", "awk '{' a", "cat $D/ro/none", "ls $D/none", "rm $D/ro/none", "mkdir $D/ro/d", "ln -s a $D/ro/f", "cd $D/ro/f", "cat $D/ro",
		"rmdir .", "sort none", "cp none b", "diff a x.c", "timeout 0.01 sleep 5", "chmod 0 a; [ -x a ]", "chown 12345 none", "set -C; echo >a", "cat a >$D/ro", "mv a /proc/none 2>&-", "npm run none", "sh none.sh", "bash -c 'exit 300'",
		// These are refused something that they can do without.
		"touch $D/ro/new 2>&-; cat none", "touch $D/ro/new || true; gcc bad.c", "cp a $D/ro/new || cp a b; grep nothing a", "[ -w $D/ro ] || cat none", "cat $D/hidden/f 2>&-; make -s",
		"[ -f ~/.ssh/id ] || exec python3 none.py", "ls ~/.ssh >&- 2>&-; sort none", "touch $D/ro/new & wait; cat none", "touch $D/ro/new || touch b; cat none", "touch $D/ro/new 2>&-; kill -9 $$",
		py("try: open(\"$D/ro/new\", \"w\")\nexcept OSError: pass\nraise ValueError(1)"), py("try: open(\"$D/hidden/f\")\nexcept OSError: pass\nopen(\"none\")"),
		py("try: open(\"$D/ro/new\", \"w\")\nexcept OSError: open(\"new\", \"w\")\nraise SystemExit(3)"), py("import sys\nsys.path.insert(0, \"$D/ro/d\")\nimport m\nraise SystemExit(4)"),
		py("import subprocess\nsubprocess.run([\"touch\", \"$D/ro/new\"])\nraise ValueError(1)"), "perl -e 'open(F, \">\", \"$D/ro/new\"); open(F, \"<\", \"none\") or die'",
		"node -e 'require(\"fs\").existsSync(\"$D/hidden/f\"); require(\"none\")'", "node -e 'try { require(\"fs\").writeFileSync(\"$D/ro/new\", \"x\") } catch {}; throw new Error(\"own\")'",
		"touch $D/ro/new & sleep 0.2; exit 3", "(touch $D/ro/new; true) & sleep 0.2; cat none", "PYTHONPATH=$D/hidden python3 -c 'import no_such'",
		"NODE_PATH=$D/hidden node -e 'require(\"nosuch\")'", "make -s TO=$D/ro -k new all; cat none", "TMPDIR=$D/ro gcc bad.c", "tar cf b.tar $D 2>&-; tar xf none", "unshare -Ur true 2>&-; cat none",
	} {
		if !quickly(i) {
			continue
		}
		t.Run(command, func(t *testing.T) {
			failed := func(r nsrun.Refusal) bool { return r.Failed }
			if status, denied, said := why(t, bin, dir, command); status == 0 || said != "" || slices.ContainsFunc(denied, failed) {
				t.Errorf("status %d, %+v: %q", status, denied, said)
			}
		})
	}
}

// whyNetwork runs cases without a network, or under rules that allow none of what they ask for. Every second case has
// rules, unless it begins with a command that would then retry for long. check gets the lines that nsrun prints about
// the network.
func whyNetwork(t *testing.T, cases []string, check func(t *testing.T, status int, denied []nsrun.Refusal, network string)) {
	testenv.Leaks(t, reap)
	bin, dir := refusing(t)
	testenv.Tree(t, dir, `p/package.json: {"name": "x", "version": "1.0.0", "scripts": {"own": "exit 3", "test": "node -e \"process.exit(1)\"", "net": "curl -sSf http://example.org/"}}`,
		"p/n.mk: all:\n\tcurl -sf http://example.org/\n", "p/g/go.mod: module p\n\ngo 1.21\n", "p/g/m.go: package main\n\nimport \"x.example/y\"\n\nfunc main() { y.Z() }\n")
	for i, command := range cases {
		program, _, _ := strings.Cut(command, " ")
		if ok, err := have(program); err != nil {
			t.Error(err)
			continue
		} else if !ok || !quickly(i) {
			continue
		}
		flags := []string{"--allow-net", "no.example"}
		if i%2 == 0 || program == "npm" || program == "npx" {
			flags = nil
		}
		t.Run(command, func(t *testing.T) {
			status, denied, said, network := whyAll(t, bin, dir, command, flags...)
			check(t, status, denied, network+said)
		})
	}
}

// py3 is a program for python3, after a connection that fails.
func py3(before, after string) string {
	return "python3 -c '" + before + "try: socket.create_connection((\"example.org\", 80))\nexcept OSError: pass\n" + after + "'"
}

// TestWhyNetwork: if a command fails because it was refused the network, nsrun says so, whatever the command prints.
func TestWhyNetwork(t *testing.T) {
	whyNetwork(t, []string{
		"curl -sSf http://example.org/", "curl -sf http://example.org/", "curl -sf http://192.0.2.1/ || exit 5", "curl -sf http://192.0.2.1/", "curl -sf http://example.org/ | grep x",
		"wget -q http://example.org/", "wget -q -O- http://example.org/ | grep x", "git clone https://example.org/x", "git clone git://192.0.2.9/x", "git ls-remote https://192.0.2.1/x",
		"git clone -q ssh://git@example.org/x", "git init -q r && cd r && git submodule add https://example.org/x sub", "make -s -f n.mk", "make -s -f n.mk || exit 9", "npm run net", "npx --no-install nosuchx",
		"npm install left-pad", "npm view left-pad", "ssh -o BatchMode=yes git@example.org", "scp -q -o BatchMode=yes a git@192.0.2.8:/tmp/", "rsync rsync://example.org/x y", "getent hosts example.org",
		"ping -c1 -W1 192.0.2.1", "openssl s_client -connect 192.0.2.1:443", "bash -c 'echo x >/dev/tcp/192.0.2.1/80'", "perl -MIO::Socket::INET -e 'IO::Socket::INET->new(\"192.0.2.1:80\") or die \"no: $!\"'",
		"perl -MIO::Socket::INET -e 'IO::Socket::INET->new(\"example.org:80\") or exit 3'", "perl -MHTTP::Tiny -e 'HTTP::Tiny->new->get(\"http://example.org/\")->{success} or die \"cannot get the page\"'",
		"ruby -rnet/http -e 'Net::HTTP.get(URI(\"http://example.org/\"))'", "php -r 'file_get_contents(\"http://example.org/\") or exit(4);'", "node -e 'require(\"http\").get(\"http://192.0.2.1/\")'",
		"node -e 'require(\"http\").get(\"http://example.org\").on(\"error\", () => process.exit(4))'", "node -e 'require(\"net\").connect(80, \"192.0.2.1\").on(\"error\", e => { console.error(e.message); process.exit(4) })'",
		"node -e 'fetch(\"http://example.org\").catch(e => { console.error(e); process.exit(4) })'", "python3 -c 'import urllib.request as u; u.urlopen(\"http://example.org\")'",
		"python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80))'", "python3 -c 'import sys, socket; sys.exit(socket.socket().connect_ex((\"192.0.2.1\", 80)))'",
		"python3 -c 'import http.client; http.client.HTTPSConnection(\"example.org\").request(\"GET\", \"/\")'", "python3 -c 'import smtplib; smtplib.SMTP(\"192.0.2.7\")'",
		"python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b\"x\", (\"192.0.2.1\", 9))'", "python3 -m pip install --retries 0 --target t nosuchpkg", "sh -c 'cd g && GOFLAGS=-mod=mod GOPROXY=https://proxy.example go build .'",
		py3("import socket, sys\n", "sys.exit(\"no connection to the server\")"), "lua5.4 -e 'os.exit(os.execute(\"curl -sf http://example.org/\") and 0 or 4)'", "socat - TCP:192.0.2.1:80",
	}, func(t *testing.T, status int, denied []nsrun.Refusal, network string) {
		if status == 0 || network == "" || len(denied) == 0 || !denied[0].Failed || denied[0].Kind != nsrun.RefusedConnect {
			t.Errorf("status %d, %+v: %q", status, denied, network)
			return
		}
		// ping needs privileges on some hosts, see net.ipv4.ping_group_range.
		if denied[0].Flag == "" && !strings.Contains(denied[0].Why, "which no flag gives") {
			t.Errorf("no flag: %+v", denied[0])
		}
	})
}

// TestNoUpdates: a command that fails for another reason is not reported as lacking a network because npm looks for a
// newer version of itself. Without the sandbox's variables, npm does.
func TestNoUpdates(t *testing.T) {
	if _, err := exec.LookPath("npm"); err != nil {
		testenv.Skip(t, "npm", err.Error())
	}
	testenv.Leaks(t, reap)
	bin, dir := installed(t), testenv.Dir(t)
	testenv.Tree(t, dir, `p/package.json: {"name": "x", "version": "1.0.0", "scripts": {"test": "exit 3"}}`, "home1/", "home2/", "home3/")
	for i, tt := range []struct {
		flags []string
		told  bool
	}{
		{nil, false}, {[]string{"--allow-net", "no.example"}, false}, {[]string{"--env", "npm_config_update_notifier=true"}, true},
	} {
		c := exec.Command("/", slices.Concat([]string{"run", "--discard"}, tt.flags, []string{"--", "npm", "test"})...)
		c.Dir = filepath.Join(dir, "p")
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, fmt.Sprint("home", i+1))}
		if r := runs(t, bin, "nsrun", c); r.status != 3 || strings.Contains(r.out, "nsrun: network: ") != tt.told {
			t.Errorf("%q: %+v", tt.flags, r)
		}
	}
}

// TestWhyNotNetwork: a command that fails for another reason gets no report about the network, although it was refused
// that, too.
func TestWhyNotNetwork(t *testing.T) {
	js := func(after string) string {
		return "node -e 'require(\"http\").get(\"http://example.org\").on(\"error\", () => { " + after + " })'"
	}
	beside := func(after string) string {
		return "node -e 'require(\"dns\").lookup(\"example.org\", () => {}); setTimeout(() => { " + after + " }, 300)'"
	}
	whyNetwork(t, []string{
		"npm run none", "npm run own", "npm test", "npm test --silent", "npm ci", "npm run own --silent", "npm none", "npx --no-install --offline nosuchx", "npm pkg set a", "npm start",
		js("require(\"none\")"), js("JSON.parse(\"{\")"), js("null.x"), js("require(\"fs\").readFileSync(\"none\")"), js("throw new Error(\"own\")"), js("require(\"fs\").readFileSync(\"a\"); process.exit(3)"),
		beside("throw new Error(\"own\")"), beside("console.error(\"bad input\"); process.exit(2)"), beside("console.error(\"missing argument: cannot go on\"); process.exit(2)"), beside("require(\"none\")"),
		beside("require(\"child_process\").execFileSync(\"false\")"), "curl -s http://example.org/; gcc bad.c", "curl -s http://example.org/; cat none", "curl -s http://example.org/ || cp a b; grep nothing b",
		"curl -s http://example.org/ || true; sort none", "curl -s http://example.org/ -o b & wait; cat none", "wget -q http://example.org/; perl -e die", "ping -c1 192.0.2.1 2>&-; make -s",
		"curl -s http://example.org/; git log", "git fetch -q https://example.org/x 2>&-; git checkout none", "getent hosts example.org; tar xf none",
		py3("import socket\n", "raise ValueError(1)"), py3("import socket\n", "open(\"none\")"), py3("import os, socket\n", "os.listdir(\".\")\nraise SystemExit(3)"), py3("import socket\n", "import no_such_module"),
		py3("import socket, sys\n", "sys.exit(\"bad value\")"), py3("import subprocess, socket\n", "subprocess.run([\"false\"], check=True)"), py3("import socket\n", "[][1]"), py3("import json, socket\n", "json.loads(\"{\")"),
		"python3 -c 'import socket, sys, threading\nt = threading.Thread(target=lambda: socket.create_connection((\"192.0.2.1\", 80)))\nt.start()\nt.join()\nopen(\"none\")'",
		"perl -MIO::Socket::INET -e 'IO::Socket::INET->new(\"192.0.2.1:80\"); open(F, \"<\", \"none\") or die \"none: $!\"'", "perl -MIO::Socket::INET -e 'IO::Socket::INET->new(\"example.org:80\"); die \"own\"'",
		"sh -c 'curl -s http://example.org/; exec python3 none.py'", "bash -c 'echo x >/dev/tcp/192.0.2.1/80; cat none' 2>&1", "curl -s http://127.0.0.1:1/",
	}, func(t *testing.T, status int, denied []nsrun.Refusal, network string) {
		if status == 0 || network != "" || slices.ContainsFunc(denied, func(r nsrun.Refusal) bool { return r.Failed }) {
			t.Errorf("status %d, %+v: %q", status, denied, network)
		}
	})
}
