//go:build linux && !race

package differ

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// The generated lines depend on the seed and on their number alone.
const (
	defaultSeed  = 1
	defaultCount = 40
	longCount    = 250 // with NSRUN_LONG
)

func number(t *testing.T, name string, def int) int {
	s := os.Getenv(name)
	if s == "" {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(name, err)
	}
	return n
}

func generated(t *testing.T) []line {
	count := defaultCount
	if testenv.Long() {
		count = longCount
	}
	seed, count := number(t, "NSRUN_DIFFER_SEED", defaultSeed), number(t, "NSRUN_DIFFER_COUNT", count)
	t.Logf("%d lines with NSRUN_DIFFER_SEED=%d", count, seed)
	lines := make([]line, count)
	for i := range lines {
		g := generator{r: rand.New(rand.NewPCG(uint64(seed), uint64(i)))}
		lines[i] = g.line()
	}
	return lines
}

type generator struct {
	r     *rand.Rand
	words []string
	fds   []string
}

func (g *generator) add(format string, args ...any) {
	g.words = append(g.words, fmt.Sprintf(format, args...))
}

func (g *generator) one(of ...string) string { return of[g.r.IntN(len(of))] }

func (g *generator) often(percent int) bool { return g.r.IntN(100) < percent }

// fd is the number of a new descriptor; there are six at most.
func (g *generator) fd(what string) (n int, ok bool) {
	if len(g.fds) == 6 {
		return 0, false
	}
	g.fds = append(g.fds, what)
	return len(g.fds) + 2, true
}

func (g *generator) line() line {
	switch {
	case g.often(15):
		g.add("--tmpfs / BASE")
	case g.often(10):
		g.add("--bind $F/dir / BASE")
	default:
		g.add("BASE")
	}
	if g.often(60) {
		g.add("--bind $F /d") // something for the steps to work in
	}
	for range g.r.IntN(4) {
		g.flag()
	}
	for range 1 + g.r.IntN(6) {
		g.step()
	}
	if g.often(10) {
		g.flag()
	}
	return line{args: strings.Join(g.words, " "), fds: g.fds}
}

func (g *generator) source() string {
	if g.often(5) {
		return g.one("$F/nothing", "$F/loop", "$F/dangling", "$F/locked/in", "''")
	}
	return g.one("$F", "$F/dir", "$F/dir/sub", "$F/file", "$F/link", "$F/dlink", "$F/mnt", "$F/mnt/sub", "$F/mnt/ro", "$F/empty",
		"$F/private", "$F/ro", "$F/fifo", "/dev/null", "dir", "./dlink/inner/b", "$F/../w/other")
}

func (g *generator) dest() string {
	if g.often(5) {
		return g.one("/", "''", ".", "/d/loop", "/d/dangling", "/d/file/x", "/probe", "/proc/x", "/../up")
	}
	return g.one("/a", "/a/b", "/a/b/c", "/b", "b/e", "/a/../c", "/d/dir", "/d/dir/sub", "/d/dir/new", "/d/new", "/d/n/e/w", "/d/file",
		"/d/dlink/x", "/d/link", "/d/dlink", "/d/abs/q", "/d/rooted", "/d/mnt", "/d/mnt/sub", "/d/mnt/new", "/l", "/l/x", "/t", "/t/x", "/t/y/z",
		"//t//w/", "/d/private/p", "/d/empty")
}

func (g *generator) perms() {
	if g.often(30) {
		g.add("--perms %s", g.one("0700", "0755", "01777", "0", "0640", "4755", "7777"))
	}
}

// step adds what is done in order.
func (g *generator) step() {
	switch g.r.IntN(19) {
	case 0, 1, 2:
		g.add("%s %s %s", g.one("--bind", "--ro-bind", "--dev-bind", "--bind-try", "--ro-bind-try", "--dev-bind-try"), g.source(), g.dest())
	case 3:
		g.perms()
		g.add("--dir %s", g.dest())
	case 4:
		g.perms()
		if g.often(30) {
			g.add("--size %s", g.one("4096", "1048576", "1"))
		}
		g.add("--tmpfs %s", g.one("/t", "/t", g.dest()))
	case 5:
		g.add("--symlink %s %s", g.one("a", "/a", "../d", "dir", "/nowhere", "."), g.one("/l", g.dest()))
	case 6:
		if n, ok := g.fd("data:" + g.one("", "text", "other")); ok {
			g.perms()
			g.add("--file %d %s", n, g.dest())
		}
	case 7, 8:
		if n, ok := g.fd(g.one("data:text", "mem:", "file:$F/file")); ok {
			g.perms()
			g.add("%s %d %s", g.one("--bind-data", "--ro-bind-data"), n, g.dest())
		}
	case 9:
		if n, ok := g.fd(g.one("path:$F/dir", "file:$F/file", "path:$F/mnt", "path:$F/ro")); ok {
			g.add("%s %d %s", g.one("--bind-fd", "--ro-bind-fd"), n, g.dest())
		}
	case 10:
		g.add("--remount-ro %s", g.one("/", "/t", "/a", "/d", "/d/mnt/sub", "/probe", g.dest()))
	case 11:
		g.add("--chmod %s %s", g.one("0700", "0755", "0111", "01777"), g.dest())
	case 12:
		g.add("--overlay-src %s %s %s", g.source(), g.one("--tmp-overlay", "--tmp-overlay", "--overlay $F/upper $F/work", "--overlay $F/upper2 $F/work2"), g.dest())
	case 13:
		g.add("--overlay-src $F/lower1 --overlay-src $F/lower2 %s %s", g.one("--tmp-overlay", "--ro-overlay", "--overlay $F/upper $F/work"), g.dest())
	case 14:
		g.add("--proc %s", g.one("/proc", "/a/proc", g.dest()))
	case 15:
		g.add("--dev %s", g.one("/dev", "/dev", g.dest()))
	case 16:
		g.add("--mqueue %s", g.dest())
	case 17:
		g.add("--dir %s --symlink %s /l", g.one("/a", "/b"), g.one("a", "/b", "d/dir"))
	case 18:
		g.add("--chdir %s", g.one("/", "/d", "/t", "/a/b", "/l", "d/dir"))
	}
}

// flag adds what may stand anywhere.
func (g *generator) flag() {
	switch g.r.IntN(13) {
	case 0, 1:
		g.add("%s", g.one("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup", "--unshare-all",
			"--unshare-user-try", "--unshare-cgroup-try"))
	case 2:
		g.add("--unshare-all --share-net")
	case 3:
		g.add("--unshare-user --uid %s --gid %s", g.one("0", "5", "1000"), g.one("0", "7", "1001"))
	case 4:
		g.add("%s %s", g.one("--cap-add", "--cap-drop"), g.one("ALL", "CAP_KILL", "cap_chown", "CAP_SYS_ADMIN", "12"))
	case 5:
		g.add("%s", g.one("--setenv A 2", "--setenv NEW x", "--unsetenv A", "--clearenv", "--unsetenv HOME"))
	case 6:
		g.add("%s", g.one("--new-session", "--die-with-parent", "--unshare-pid --as-pid-1", "--argv0 name", "--level-prefix", "--not-a-security-boundary"))
	case 7:
		g.add("--unshare-uts --hostname %s", g.one("box", "other"))
	case 8:
		if n, ok := g.fd("out"); ok {
			g.add("%s %d", g.one("--info-fd", "--json-status-fd"), n)
		}
	case 9:
		if n, ok := g.fd("data:" + g.one(allow, noUname)); ok {
			g.add("%s %d", g.one("--seccomp", "--add-seccomp-fd"), n)
		}
	case 10:
		if n, ok := g.fd("data:x"); ok {
			g.add("%s %d", g.one("--block-fd", "--sync-fd"), n)
		}
	case 11:
		g.add("--unshare-user --disable-userns")
	case 12:
		if n, ok := g.fd("data:" + g.one("--dir\x00/args\x00", "--unshare-pid\x00--proc\x00/proc\x00", "--tmpfs\x00/t\x00--setenv\x00Z\x00z")); ok {
			g.add("--args %d", n)
		}
	}
}
