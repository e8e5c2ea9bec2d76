//go:build linux

package nsrun_test

import (
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

// TestRefusedUnnamed: what a message does not name is found in the command line, and with the flag the command works.
// If the message is about something else, nothing is named.
func TestRefusedUnnamed(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := refusing(t)
	sock := filepath.Join(dir, "sock")
	testenv.Tree(t, dir, "bare/", "cfg: ", "../home/.ssh/known_hosts: x", "../home/.ssh/id_ed25519: x")
	if b, err := exec.Command("git", "init", "-q", "--bare", filepath.Join(dir, "bare")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	const connect = `use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un("` + "$S" + `")) or `
	commit := "git init -q && git -c user.name=x -c user.email=x@x.example commit -q --allow-empty -m x && "
	for _, q := range []struct{ command, flag string }{
		{`perl -e '` + connect + `die "no answer: $!\n"'`, "--allow-unix $S"},
		{`perl -e '` + connect + `die "PermissionError: [Errno 13] Permission denied\n"'`, "--allow-unix $S"},
		{`perl -e '` + connect + `die "curl: (7) Failed to connect to x port 80 after 0 ms: Couldn\x27t connect to server\n"' -- --unix-socket $S`, "--allow-unix $S"},
		{commit + "git push -q $D/bare HEAD:refs/heads/new", "--rw $D/bare"},
		{commit + "git remote add o $D/bare && git push -q o HEAD:refs/heads/named", "--rw $D/bare"},
		{commit + "git push -q file://$D/bare HEAD:refs/heads/url", "--rw $D/bare"},
		{commit + "git push -q ../host/bare HEAD:refs/heads/relative", "--rw $D/bare"},
		{`git config -f $D/cfg a.b c`, "--rw $D"},
		{`perl -e 'open(F, ">", "$D/new") or die "curl: (23) Failure writing output to destination\n"' -- -sSfo $D/new`, "--rw $D"},
		{`perl -e 'open(F, "<", "$H/.ssh/known_hosts") or die "Host key verification failed.\n"'`, "--ro $H/.ssh/known_hosts"},
		{`perl -e 'open(F, "<", "$H/.ssh/id_ed25519") or die "me\@host: Permission denied (publickey,password).\n"'`, "--ro $H/.ssh/id_ed25519"},
		{`perl -e 'die "curl: (23) Failure writing output to destination\n"' -- -o new $D`, ""},
		{`echo "unable to create temporary object directory" >&2; echo "To $D/../p" >&2; false`, ""},
		{`echo "To $D/bare" >&2; false`, ""},
		{`perl -e '` + connect + `die "no answer\n"'`, ""},
		{`: $S; touch closed; chmod 0 closed; echo "cannot read closed: Permission denied" >&2; false`, ""},
		{`: $S; echo "/etc: Permission denied" >&2; false`, ""},
		{`: $D/none/sock; echo "Permission denied" >&2; false`, ""},
		{`: $S; echo "Permission denied" >&2`, ""},
		{`: ` + filepath.Dir(dir) + `/p; echo "unable to create temporary object directory" >&2; false`, ""},
	} {
		fill := strings.NewReplacer("$S", sock, "$D", dir, "$H", filepath.Join(filepath.Dir(dir), "home")).Replace
		for _, through := range []bool{false, true} {
			res, err := runner(t, c).Run(t.Context(), passing(t, fill(q.command), through))
			flag := ""
			if len(res.Refusals) > 0 {
				flag = res.Refusals[0].Flag
			}
			if err != nil || flag != fill(q.flag) || len(res.Refusals) > 1 {
				t.Errorf("%s, %v: %v, %+v: %s", q.command, through, err, res.Refusals, res)
			}
		}
		if q.flag == "" {
			continue
		}
		with := allowed(t, c, fill(q.flag))
		needFor(t, with)
		if res, err := runner(t, with).Run(t.Context(), nsrun.Request{Command: fill(q.command)}); err != nil || res.ExitCode != 0 {
			t.Errorf("%s with %s: %v, %s", q.command, fill(q.flag), err, res)
		}
	}
}

// TestRefusedDatagrams: a server for UDP of this host at 127.0.0.1 is found, too.
func TestRefusedDatagrams(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	server, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		var b [100]byte
		for {
			n, from, err := server.ReadFrom(b[:])
			if err != nil {
				return
			}
			_, _ = server.WriteTo(b[:n], from)
		}
	}()
	free, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at, none := server.LocalAddr().String(), free.LocalAddr().String()
	free.Close()
	config := nsrun.Config{Project: filepath.Join(place(t), "p"), After: nsrun.Discard}
	ask := func(at string) string {
		host, port, _ := net.SplitHostPort(at)
		return `perl -MSocket -e 'socket(S, PF_INET, SOCK_DGRAM, 0); connect(S, sockaddr_in(` + port + `, inet_aton("` + host +
			`"))); send(S, "x", 0); defined recv(S, $b, 9, 0) or die "` + host + ":" + port + `: $!\n"'`
	}
	for _, config.Why = range []bool{false, true} {
		needFor(t, config)
		for _, at := range []string{at, none} {
			res, err := runner(t, config).Run(t.Context(), passing(t, ask(at), true))
			found := slices.ContainsFunc(res.Refusals, func(r nsrun.Refusal) bool {
				return r.Flag == "--allow-net udp:"+at && r.Kind == nsrun.RefusedConnect && r.Failed == config.Why
			})
			if err != nil || res.ExitCode == 0 || found != (at != none) || len(res.Refusals) > 1 {
				t.Errorf("why %v, %s: %v, %+v: %s", config.Why, at, err, res.Refusals, res)
			}
		}
	}
	with := allowed(t, nsrun.Config{Project: config.Project, After: nsrun.Discard}, "--allow-net udp:"+at)
	needFor(t, with)
	if res, err := runner(t, with).Run(t.Context(), nsrun.Request{Command: ask(at)}); err != nil || res.ExitCode != 0 {
		t.Errorf("with a rule: %v, %s", err, res)
	}
}

// TestRefusedAddresses: without a network, Config.Why knows which addresses a command tried to reach, and names rules
// for them. If it looked up names, nobody knows what these would have been.
func TestRefusedAddresses(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	c := nsrun.Config{Project: filepath.Join(place(t), "p"), After: nsrun.Discard, Why: true}
	needFor(t, c)
	for _, q := range []struct{ command, flag string }{
		{"bash -c ': </dev/tcp/192.0.2.1/443'", "--allow-net tcp:192.0.2.1:443"},
		{"bash -c ': </dev/tcp/2001:db8::1/80'", "--allow-net tcp:[2001:db8::1]:80"},
		{"bash -c 'for h in 1 2 1; do : </dev/tcp/192.0.2.$h/443; done; exit 1'", "--allow-net tcp:192.0.2.1:443 --allow-net tcp:192.0.2.2:443"},
		{"bash -c 'echo x >/dev/udp/192.0.2.1/99'", "--allow-net udp:192.0.2.1:99"},
		{"bash -c 'for h in 1 2 3 4 5; do : </dev/tcp/192.0.2.$h/443; done; exit 1'", "--learn-net"},
		{"bash -c 'echo x >/dev/udp/192.0.2.1/53; : </dev/tcp/192.0.2.1/443'", "--learn-net"},
	} {
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: q.command})
		if err != nil || len(res.Refusals) != 1 || res.Refusals[0].Flag != q.flag || !res.Refusals[0].Failed {
			t.Errorf("%s: %v, %+v: %s", q.command, err, res.Refusals, res)
		}
	}
}

// TestManyRefusals: what made a command fail is listed, however much it was refused before that.
func TestManyRefusals(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := refusing(t)
	c.Why = true
	needFor(t, c)
	for _, many := range []string{"150", "1100"} {
		command := `sh -c 'i=0; while [ $i -lt ` + many + ` ]; do { true >"$1/many-$i"; } 2>/dev/null; i=$((i+1)); done; true' x ` + dir + `; echo x >` + dir + `/last`
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: command})
		if err != nil || len(res.Refusals) != 100 {
			t.Fatalf("%s: %v, %d: %s", many, err, len(res.Refusals), res)
		}
		for i, r := range res.Refusals {
			if r.Failed != (i == 0) || i == 0 && r.Target != filepath.Join(dir, "last") {
				t.Errorf("%s: %d: %+v", many, i, r)
			}
		}
	}
}

// TestRefusedElsewhere: a relative name in a message of git -C is in that directory, although git's own directory of
// the project is read-only, too.
func TestRefusedElsewhere(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir, c := refusing(t)
	c.Mode, c.After = nsrun.Direct, nsrun.Keep
	work := filepath.Join(dir, "work")
	for _, at := range []string{c.Project, work} {
		if b, err := exec.Command("git", "init", "-q", at).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
	}
	for _, command := range []string{"git -C ../host/work fetch -q .", "cd " + work + " && git fetch -q ."} {
		res, err := runner(t, c).Run(t.Context(), passing(t, command, true))
		if err != nil || len(res.Refusals) != 1 || res.Refusals[0].Flag != "--rw "+filepath.Join(work, ".git") {
			t.Errorf("%s: %v, %+v: %s", command, err, res.Refusals, res)
		}
	}
}
