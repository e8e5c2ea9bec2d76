//go:build linux && go1.26 && !go1.28 && !nsrun_plain

package prerun

import (
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/bwrap"
	"github.com/nsrun/nsrun/internal/sandbox"
)

var (
	user = who{uid: 1000, gid: 1000}
	root = who{caps: 1<<41 - 1}
)

// simple are command lines that need nothing but what is here.
var simple = []string{
	"--bind / / true",
	"--ro-bind / / --unshare-all --dev /dev --proc /proc true",
	"--dev-bind / / -- sh -c : a b",
	"--tmpfs / --ro-bind /usr /usr --symlink usr/bin /bin --dir /run/x --perms 0700 --size 4096 --tmpfs /tmp --chmod 1777 /tmp --remount-ro / true",
	"--ro-bind / / --bind-try /none /mnt --ro-bind-try /usr /mnt --dev-bind-try /dev /mnt true",
	"--ro-bind / / --mqueue /mnt --unshare-ipc --unshare-uts --hostname x --unshare-cgroup-try true",
	"--ro-bind / / --unshare-user --uid 0 --gid 4294967294 true",
	"--ro-bind / / --uid 7 --gid 8 --unshare-user true",
	"--ro-bind / / --clearenv --setenv A b --setenv A c --unsetenv A --setenv PWD x --chdir / --argv0 y true",
	"--ro-bind / / --unshare-pid --as-pid-1 --new-session --die-with-parent true",
	"--ro-bind / / --level-prefix --not-a-security-boundary --unshare-all --share-net /bin/true",
	"--unshare-all --kill-on-exit --ro-bind / / true",
}

// others need more, or are wrong.
var others = []string{
	"", "--help", "--version", "--nonsense", "--bind", "--bind /", "--bind / /", "--perms", "--perms 9 --dir /x true",
	"--size 1 --dir /x true", "--size x --tmpfs /x true", "--args 3 true", "--file 3 /x true",
	"--chdir / --chdir / true", "--uid -1 true", "--uid 99999999999 true", "--hostname x true", "--as-pid-1 true",
	"--overlay-src / --tmp-overlay /x true", "--seccomp 3 true", "--cap-add ALL true", "--bind / usr true", "--bind usr /usr true",
	"--bind / /a//b true", "--bind / /a/./b true", "--remount-ro /x true", "--symlink '' /x true", "--symlink a / true",
	"--setenv = x true", "--unsetenv a=b true", "--kill-on-exit true", "--tmpfs /" + strings.Repeat("x", 5000) + " true",
	strings.Repeat("--dir /x ", maxMounts+1) + "true", strings.Repeat("--setenv a b ", 300) + "true", strings.Repeat("a ", maxWords),
}

// words are split at spaces; ” is an empty one.
func words(line string) []string {
	w := strings.Fields(line)
	for i := range w {
		if w[i] == "''" {
			w[i] = ""
		}
	}
	return w
}

// program does what the entry point does, up to the clone.
func program(m *memory, words, environ []string, w who) []byte {
	if !m.prepare(words, environ, w, false) {
		return nil
	}
	cfg := m.options.Config()
	sandbox.Of(&m.cmd).WorkingDir = "/src/dir"
	m.known = sandbox.Known{
		Status: 4, Other: 3, HostRoot: w.uid == 0,
		UID: sandbox.ID{Inside: cfg.UID.Value, Outside: w.uid}, GID: sandbox.ID{Inside: cfg.GID.Value, Outside: w.gid},
	}
	return sandbox.Compile(&m.cmd, &m.program, &m.known)
}

// TestNothingIsAllocated: where there is no runtime nobody would give memory.
func TestNothingIsAllocated(t *testing.T) {
	m := new(memory)
	check := func(line string, w who, want bool) {
		environ := make([]string, 3, maxEnviron)
		args := words(line)
		laid := false
		n := testing.AllocsPerRun(3, func() {
			*m = memory{}
			copy(environ, []string{"PATH=/usr/bin:/bin", "HOME=/root", "A=1"})
			laid = program(m, args, environ[:3], w) != nil
		})
		if n != 0 && !race {
			t.Errorf("%.60s, uid %d: %v allocations", line, w.uid, n)
		}
		if laid != want {
			t.Errorf("%.60s, uid %d: laid out: %v", line, w.uid, laid)
		}
	}
	for _, line := range simple {
		check(line, user, true)
		check(line, root, true)
	}
	for _, line := range others {
		check(line, user, false)
		check(line, root, false)
	}
	many := "--ro-bind / / --tmpfs /tmp"
	for i := range 500 {
		many += " --ro-bind /usr /tmp/d" + strconv.Itoa(i)
	}
	check(many+" true", user, true)
}

// TestEnvironment: it is the one that the usual way makes.
func TestEnvironment(t *testing.T) {
	for _, line := range simple {
		m := new(memory)
		base := []string{"PATH=/bin", "A=1", "PWD=/x", "B", ""}
		environ := append(make([]string, 0, maxEnviron), base...)
		if !m.prepare(words(line), environ, user, false) {
			t.Fatalf("%s: not prepared", line)
		}
		cfg, err := bwrap.Parse(words(line), bwrap.Env{UID: user.uid, GID: user.gid, Extensions: true, UserNamespaces: userNamespaces})
		if err != nil {
			t.Fatal(err)
		}
		if want := cfg.Environment(base); !reflect.DeepEqual(m.cmd.Env, want) {
			t.Errorf("%s: %q, the usual way makes it %q", line, m.cmd.Env, want)
		}
	}
}

// TestSystem compares what the code before the runtime finds out about the system with what the runtime says.
func TestSystem(t *testing.T) {
	w, ok := caller()
	if !ok || int(w.uid) != os.Getuid() || int(w.gid) != os.Getgid() {
		t.Errorf("caller: %+v, %v", w, ok)
	}
	if _, err := os.Stat("/proc/self/ns/user"); (err == nil) != exists("/proc/self/ns/user\x00") {
		t.Error("exists disagrees with os.Stat")
	}
	if exists("/no/such/file\x00") {
		t.Error("a file exists that does not")
	}
	b, err := os.ReadFile("/proc/sys/user/max_user_namespaces")
	if want := err != nil || string(b) != "0\n"; userNamespaces() != want {
		t.Errorf("userNamespaces: %v, the file says %q, %v", !want, b, err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if terminal(null.Fd()) {
		t.Error("/dev/null is a terminal")
	}
	if got := []uintptr{exitCode(0), exitCode(3 << 8), exitCode(9), exitCode(0x80 | 11)}; !reflect.DeepEqual(got, []uintptr{0, 3, 137, 139}) {
		t.Errorf("exit codes: %v", got)
	}
}

// TestRandomLines: whatever the words are, nothing is allocated and nothing panics,
// and what is accepted means what it means to the usual way. (That is compared by
// fuzzing too, in package bwrap; the fuzzer's instruments do not leave room on the
// stack of the code that runs in a clone.)
func TestRandomLines(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	vocabulary := []string{
		"/", "/usr", "/tmp/x", "//", "a", "", "-", "--", "--x", "/a/../b", "0", "7", "-1", "0755", "99999999999", "A", "A=B", "/\xff",
	}
	options := bwrap.Options(true)
	m := new(memory)
	environ := make([]string, 0, maxEnviron)
	accepted := 0
	for range 1500 {
		var args []string
		for range rnd.IntN(8) {
			o := options[rnd.IntN(len(options))]
			args = append(args, o.Name)
			for range o.NArgs() {
				args = append(args, vocabulary[rnd.IntN(len(vocabulary))])
			}
		}
		args = append(args, "true")
		w := user
		if rnd.IntN(2) == 0 {
			w = root
		}
		laid := false
		saved := append([]string(nil), args...)
		// The average is rounded down: what the runtime allocates beside it is not counted.
		if n := testing.AllocsPerRun(3, func() {
			*m = memory{}
			copy(args, saved) // --argv0 is put among them
			laid = program(m, args, append(environ, "PATH=/bin", "HOME=/"), w) != nil
		}); n != 0 && !race {
			t.Errorf("%q: %v allocations", saved, n)
		}
		if !laid {
			continue
		}
		accepted++
		if _, err := bwrap.Parse(saved, bwrap.Env{UID: w.uid, GID: w.gid, Caps: w.caps, Extensions: true, UserNamespaces: userNamespaces}); err != nil {
			t.Errorf("%q: the usual way says %v", saved, err)
		}
	}
	if accepted < 30 {
		t.Errorf("only %d lines were accepted", accepted)
	}
}
