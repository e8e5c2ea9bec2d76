//go:build linux

package nsrun_test

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// gitRefusing is refusing, with git repositories in what is read-only and in what is hidden.
func gitRefusing(t *testing.T) (dir string, c nsrun.Config) {
	dir, c = refusing(t)
	testenv.Tree(t, dir, "../home/.config/", "../home/.config/nsrun/")
	for _, name := range []string{"bare", "hidden/bare"} {
		if b, err := exec.Command("git", "init", "-q", "--bare", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
	}
	return dir, c
}

// TestWhyRepository: with Config.Why, one flag is enough for git, which writes to several directories of a repository.
func TestWhyRepository(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := gitRefusing(t)
	c.Why = true
	needFor(t, c)
	const commit = "git init -q && git -c user.name=x -c user.email=x@x.example commit -q --allow-empty -m x && "
	for _, q := range []struct{ command, flag string }{
		{commit + "git push -q $D/bare HEAD:refs/heads/one", "--rw $D/bare"},
		{commit + "git remote add o $D/bare && git push -q o HEAD:refs/heads/two/three", "--rw $D/bare"},
		{commit + "git push -q file://$D/bare HEAD:refs/heads/four", "--rw $D/bare"},
		{"git init -q && git fetch -q $D/hidden/bare 'refs/*:refs/x/*'", "--ro $D/hidden/bare"},
		{"touch $D/bare/objects/x", "--rw $D/bare/objects"},
	} {
		fill := strings.NewReplacer("$D", dir).Replace
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: fill(q.command)})
		if err != nil || len(res.Refusals) == 0 || res.Refusals[0].Flag != fill(q.flag) || !res.Refusals[0].Failed {
			t.Errorf("%s: %v, %+v: %s", q.command, err, res.Refusals, res)
			continue
		}
		if res, err := runner(t, allowed(t, c, fill(q.flag))).Run(t.Context(), nsrun.Request{Command: fill(q.command)}); err != nil || res.ExitCode != 0 {
			t.Errorf("%s with %s: %v, %+v: %s", q.command, q.flag, err, res.Refusals, res)
		}
	}
}

// TestWhyOwnSettings: no flag is named that would make nsrun's own settings writable.
func TestWhyOwnSettings(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := gitRefusing(t)
	home := filepath.Join(filepath.Dir(dir), "home")
	for _, c.Why = range []bool{false, true} {
		needFor(t, c)
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: "touch " + home + "/.config/new"})
		if err != nil || len(res.Refusals) != 1 || res.Refusals[0].Flag != "" {
			t.Errorf("why %v: %v, %+v: %s", c.Why, err, res.Refusals, res)
		}
	}
}

// TestWhyHelper: a program failed because of a connection that its helper was refused, if it says that it has none.
func TestWhyHelper(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	c := nsrun.Config{Project: filepath.Join(place(t), "p"), After: nsrun.Discard, Why: true}
	needFor(t, c)
	helper := `perl -MSocket -e "socket(S, PF_INET, SOCK_STREAM, 0); connect(S, sockaddr_in(` + port + `, INADDR_LOOPBACK)); exit 255"`
	fails := func(text string) string {
		return "perl -e 'system(q(" + helper + ")); open(F, q(<), q(/etc/passwd)); die qq(" + text + "\\n)'"
	}
	for command, told := range map[string]bool{
		"GIT_SSH_COMMAND='" + helper + "' git ls-remote ssh://host/x": true,
		fails("tool: connection unexpectedly closed"):                 true,
		fails("tool: something else"):                                 false,
	} {
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: command})
		failed := len(res.Refusals) > 0 && res.Refusals[0].Failed
		if err != nil || res.ExitCode == 0 || failed != told || told && res.Refusals[0].Flag != "--allow-net tcp:127.0.0.1:"+port {
			t.Errorf("%s: %v, %+v: %s", command, err, res.Refusals, res)
		}
	}
}

// TestWhyOtherServer: a program that fails without a message after it could not connect, where nothing refused that,
// has not failed because of what it was refused before.
func TestWhyOtherServer(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close() // nobody listens there
	_, c := refusing(t)
	c.Why = true
	needFor(t, c)
	const open, connect = `open(F, "<", "$ENV{HOME}/.ssh/id"); `, `socket(S, PF_INET, SOCK_STREAM, 0); connect(S, sockaddr_in(PORT, INADDR_LOOPBACK)); `
	for code, failed := range map[string]bool{open + connect: false, connect + open: true} {
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: `perl -MSocket -e '` + strings.ReplaceAll(code, "PORT", port) + `exit 4'`})
		if err != nil || res.ExitCode != 4 || len(res.Refusals) != 1 || res.Refusals[0].Failed != failed {
			t.Errorf("%s: %v, %+v: %s", code, err, res.Refusals, res)
		}
	}
}

// TestWhyDatagram: data that is sent to a unix socket without a connection is refused, too.
func TestWhyDatagram(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := refusing(t)
	name := filepath.Join(dir, "datagrams")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c.Why = true
	needFor(t, c)
	q := nsrun.Request{Command: `perl -MSocket -e 'socket(S, PF_UNIX, SOCK_DGRAM, 0); defined send(S, "x", 0, pack_sockaddr_un("` + name + `")) or exit 3'`}
	res, err := runner(t, c).Run(t.Context(), q)
	if err != nil || len(res.Refusals) != 1 || res.Refusals[0].Flag != "--allow-unix "+name || !res.Refusals[0].Failed || res.Refusals[0].Kind != nsrun.RefusedUnix {
		t.Fatalf("%v, %+v: %s", err, res.Refusals, res)
	}
	if res, err := runner(t, allowed(t, c, res.Refusals[0].Flag)).Run(t.Context(), q); err != nil || res.ExitCode != 0 {
		t.Errorf("with the flag: %v, %+v: %s", err, res.Refusals, res)
	}
}

// TestRefusedGroup: without a network a command cannot join a multicast group, except on its loopback device.
func TestRefusedGroup(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	list, _ := net.Interfaces()
	if !slices.ContainsFunc(list, func(i net.Interface) bool {
		return i.Flags&(net.FlagUp|net.FlagMulticast|net.FlagLoopback) == net.FlagUp|net.FlagMulticast
	}) {
		testenv.Skip(t, "multicast", "this host has no network device for it")
	}
	join := func(device, text string) string {
		return `perl -MSocket -e 'socket(S, PF_INET, SOCK_DGRAM, 0); setsockopt(S, 0, 35, pack("a4 a4", inet_aton("224.0.0.251"), inet_aton("` + device + `"))) or die "` + text + `: $!\n"'`
	}
	for i, tt := range []struct {
		command string
		plain   bool // it is told without Config.Why, too
		why     bool
	}{
		{join("0.0.0.0", "membership"), true, true},
		{join("0.0.0.0", "x"), false, true},
		{join("192.0.2.77", "x"), false, false},
		{join("127.0.0.1", "x") + "; false", false, false},
		{`perl -e 'die "membership: No such device or address\n"'`, false, false},
	} {
		for _, why := range []bool{false, true} {
			c := nsrun.Config{Project: filepath.Join(place(t), "p"), After: nsrun.Discard, Why: why}
			needFor(t, c)
			res, err := runner(t, c).Run(t.Context(), passing(t, tt.command, i%2 == 0))
			want := tt.plain && !why || tt.why && why
			got := len(res.FileRefusals()) == 1 && res.FileRefusals()[0].Flag == "--net host" && res.FileRefusals()[0].Failed == why
			if err != nil || got != want || !want && len(res.Refusals) > 0 {
				t.Errorf("%s, why %v: %v, %s: %s", tt.command, why, err, fmt.Sprintf("%+v", res.Refusals), res)
			}
		}
	}
}

// TestRefusedSecond: of two names in a message of Node about a link or a copy, the second is written to.
func TestRefusedSecond(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := refusing(t)
	for _, command := range []string{
		`perl -e 'symlink("/usr/share/none", "$D/new") or die "npm error rofs EROFS: read-only file system, symlink \x27/usr/share/none\x27 -> \x27$D/new\x27\n"'`,
		`perl -e 'open(F, ">", "$D/new") or die "Error: EROFS: read-only file system, copyfile \x27a\x27 -> \x27$D/new\x27\n"'`,
	} {
		command = strings.ReplaceAll(command, "$D", dir)
		res, err := runner(t, c).Run(t.Context(), passing(t, command, true))
		if err != nil || len(res.Refusals) != 1 || res.Refusals[0].Flag != "--rw "+dir {
			t.Fatalf("%s: %v, %+v: %s", command, err, res.Refusals, res)
		}
		if res, err := runner(t, allowed(t, c, res.Refusals[0].Flag)).Run(t.Context(), nsrun.Request{Command: command + "; rm " + dir + "/new"}); err != nil || res.ExitCode != 0 {
			t.Errorf("%s with the flag: %v, %+v: %s", command, err, res.Refusals, res)
		}
	}
}

// TestRefusedPrivileges: what takes root's privileges is named, as programs say that they lack them.
func TestRefusedPrivileges(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.Leaks(t, nsexec.Shutdown)
	c := nsrun.Config{Project: filepath.Join(place(t), "p"), After: nsrun.Discard}
	for message, target := range map[string]string{
		"iptables v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)": "sendmsg",
		"Error:\nNo permission to enable task-clock event.":                                                         "perf_event_open",
		"No permission to enable the account":                                                                       "",
	} {
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: "printf '" + message + "\n' >&2; false"})
		got := ""
		if len(res.Refusals) > 0 {
			got = res.Refusals[0].Target
		}
		if err != nil || got != target {
			t.Errorf("%s: %v, %+v", message, err, res.Refusals)
		}
	}
}

// TestRefusedModes: a mode with a set-user-id bit is refused, whatever says so.
func TestRefusedModes(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t, "a")
	for command, told := range map[string]bool{
		"chmod u+s a":           true,
		"chmod 4755 a":          true,
		"chmod a=xs ../p/a":     true,
		"install -m 6755 a new": true,
		"python3 -c 'import os; os.chmod(\"a\", 0o4755)'":         true,
		"chmod 755 /proc/1/stat":                                  false,
		"chmod g+s none":                                          false,
		"chmod u+s none":                                          false,
		"perl -e 'die \"chmod 755: Operation not permitted\\n\"'": false,
	} {
		for _, why := range []bool{false, true} {
			c := nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, Why: why}
			needFor(t, c)
			res, err := runner(t, c).Run(t.Context(), passing(t, command, len(command)%2 == 0))
			got := slices.ContainsFunc(res.Refusals, func(r nsrun.Refusal) bool {
				return r.Kind == nsrun.RefusedSyscall && strings.Contains(r.Target, "chmod") && r.Flag == ""
			})
			if err != nil || res.ExitCode == 0 || got != told {
				t.Errorf("%s, why %v: %v, %+v: %s", command, why, err, res.Refusals, res)
			}
		}
	}
}
