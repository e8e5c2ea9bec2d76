//go:build linux

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/strike"
	"github.com/nsrun/nsrun/internal/testenv"
)

// startFlags are the ways to start a command that are struck.
var startFlags = []string{"", "--direct", "--allow-net example.org:443", "--backend landlock", "--direct --backend landlock", "--why --allow-net example.org:443", "--commit --memory 1G --pids 500"}

// probe is the command. It says what it could do that it may not, and what restricts it. The bounding set of
// capabilities does not count: it matters only to execve, and NoNewPrivs is there.
const probe = `
say() { echo "probe: $*"; }
cat "$HOME/.ssh/key" >/dev/null 2>&1 && say can read a secret
{ : >"$OUTSIDE/file"; } 2>/dev/null && say can write outside
{ : </dev/tcp/127.0.0.1/$PORT; } 2>/dev/null && say has the network
kill -0 $OTHER 2>/dev/null && say can signal others
echo made >made || say cannot write
cat /proc/self/status | while read -r what value; do # not from the file: bash would go back in it, and it changes
	case $what in NoNewPrivs:|Seccomp:|CapEff:|CapPrm:|CapInh:) say "$what $value" ;; esac
done
echo "/proc/self/fd/"* >/dev/null
say ran
`

// forbidden is what probe must never say.
var forbidden = regexp.MustCompile(`(?m)^probe: can(not)? .*|^probe: has .*`)

// A startPlace is where a command is started: a home directory with a secret, a project, and a directory beside them.
type startPlace struct {
	dir, bin string
	env      []string
}

func newStartPlace(t *testing.T, base, bin string, port int) *startPlace {
	t.Helper()
	dir, err := os.MkdirTemp(base, "")
	if err != nil {
		t.Fatal(err)
	}
	testenv.Tree(t, dir, "home/.ssh/key: secret", "p/a: a", "outside/", "tmp/", "run/")
	p := &startPlace{dir: dir, bin: bin}
	p.env = []string{
		"HOME=" + p.at("home"), "TMPDIR=" + p.at("tmp"), "XDG_RUNTIME_DIR=" + p.at("run"), "PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=" + noon(),
		"OUTSIDE=" + p.at("outside"), "PORT=" + strconv.Itoa(port), "OTHER=" + strconv.Itoa(os.Getpid()), "GORACE=atexit_sleep_ms=0",
	}
	return p
}

func (p *startPlace) at(name string) string { return filepath.Join(p.dir, name) }

// A started is how a start ended.
type started struct {
	strike.Result
	out, said string
	hung      bool
}

// command is nsrun with a command.
func (p *startPlace) command(flags string, command ...string) *exec.Cmd {
	args := append([]string{"run", "--env", "OUTSIDE", "--env", "PORT", "--env", "OTHER"}, strings.Fields(flags)...)
	c := exec.Command(filepath.Join(p.bin, "nsrun"), append(append(args, "--"), command...)...)
	c.Dir, c.Env = p.at("p"), p.env
	return c
}

// start starts the command with a fault.
func (p *startPlace) start(t *testing.T, flags string, plan strike.Plan) started {
	t.Helper()
	c := p.command(flags, "bash", "-c", probe)
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	plan.Starts = true
	var hung atomic.Bool
	hangs := time.AfterFunc(patience, func() {
		hung.Store(true)
		for _, pid := range p.processes() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	})
	r, err := strike.Run(c, plan)
	hangs.Stop()
	if errors.Is(err, strike.ErrNotPermitted) {
		testenv.Skip(t, "ptrace", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	return started{Result: r, out: out.String(), said: said.String(), hung: hung.Load()}
}

// processes are all that were started here.
func (p *startPlace) processes() (pids []int) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range environs {
		if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte(p.dir)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// left is what a start leaves behind: processes, and files where there were none.
func (p *startPlace) left(t *testing.T) (list []string) {
	t.Helper()
	testenv.Poll(testenv.Patience, func() bool {
		reap()
		list = list[:0]
		for _, pid := range p.processes() {
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			list = append(list, fmt.Sprintf("process %d %s", pid, name))
		}
		for _, dir := range []string{"tmp", "run", "outside"} {
			entries, err := os.ReadDir(p.at(dir))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				list = append(list, filepath.Join(dir, e.Name()))
			}
		}
		for _, line := range testenv.Mounts() {
			if strings.Contains(line, p.dir) {
				list = append(list, "mount "+line)
			}
		}
		return len(list) == 0
	})
	return list
}

// sessions are those that are not for later use.
func (p *startPlace) sessions(t *testing.T) (list []string) {
	t.Helper()
	all, err := filepath.Glob(p.at("home/.local/state/nsrun/sessions/[0-9]*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A startTrial is a way to start the command, and how it does without a fault.
type startTrial struct {
	flags     string
	base, bin string
	port      int
	whole     started
	calls     map[string]int // how often each is made
}

func (tr *startTrial) run(t *testing.T) {
	t.Helper()
	p := newStartPlace(t, tr.base, tr.bin, tr.port)
	defer p.drop(t)
	tr.calls = map[string]int{}
	tr.whole = p.start(t, tr.flags, strike.Plan{Trace: func(_ int, c strike.Call) { tr.calls[c.Name]++ }})
	if tr.whole.ExitCode == 125 {
		testenv.Skip(t, "nsrun run "+tr.flags, tr.whole.said)
	}
	if tr.whole.ExitCode != 0 || !strings.Contains(tr.whole.out, "probe: ran") {
		t.Fatalf("nsrun run %s: %+v", tr.flags, tr.whole)
	}
	if bad := tr.bad(tr.whole.out); len(bad) > 0 {
		t.Fatalf("nsrun run %s: %q", tr.flags, bad)
	}
	if left := p.left(t); len(left) > 0 {
		t.Fatalf("nsrun run %s left %q", tr.flags, left)
	}
}

// bad is what the command could do and may not.
func (tr *startTrial) bad(out string) []string {
	return slices.DeleteFunc(forbidden.FindAllString(out, -1), func(line string) bool {
		return strings.Contains(line, "has the network") && strings.Contains(tr.flags, "--net host")
	})
}

// capabilities are what probe says of them.
var capabilities = regexp.MustCompile(`(?m)^(probe: Cap\w+: )([0-9a-f]+)$`)

// withoutCapabilities is what probe says without those that root's command has in a session: it can do less.
func withoutCapabilities(out string) string {
	return capabilities.ReplaceAllString(out, "${1}0000000000000000")
}

// startErrnos are what kernels, filters of containers and limits return where something is not to be had.
var startErrnos = []unix.Errno{unix.EPERM, unix.ENOSYS, unix.ENOMEM, unix.EMFILE, unix.ENOSPC, unix.EINVAL}

// startsAlways are faults that are tried with all flags. With some of them starts hung, did not say what failed, or
// wrote to the standard output of the command.
var startsAlways = []startPoint{
	{"openat2", 1, strike.Fail, unix.EPERM}, {"sendmsg", 1, strike.Kill, 0}, {"seccomp", 1, strike.Fail, unix.ENOMEM},
	{"dup3", 1, strike.Fail, unix.ENOMEM}, {"dup3", 2, strike.Fail, unix.ENOMEM}, {"mount_setattr", 1, strike.Fail, unix.ENOSYS},
	{"landlock_restrict_self", 1, strike.Fail, unix.EPERM},
}

// A startPoint is one fault.
type startPoint struct {
	name  string // of the call
	at    int    // which of them
	do    strike.Action
	errno unix.Errno
}

func (pt startPoint) String() string {
	how := pt.do.String()
	if pt.do == strike.Fail {
		how += " with " + unix.ErrnoName(pt.errno)
	}
	return fmt.Sprintf("%s %d: %s", pt.name, pt.at, how)
}

func (pt startPoint) plan() strike.Plan {
	return strike.Plan{At: pt.at, Do: pt.do, Errno: pt.errno, Only: func(c strike.Call) bool { return c.Name == pt.name }}
}

// points are all faults: of each system call the first, the last and some in between, with each errno.
func (tr *startTrial) points() (list []startPoint) {
	for _, name := range slices.Sorted(maps.Keys(tr.calls)) {
		n := tr.calls[name]
		for _, at := range slices.Compact([]int{1, 1 + n/4, 1 + n/2, 1 + n*3/4, n}) {
			for _, errno := range startErrnos {
				list = append(list, startPoint{name, at, strike.Fail, errno})
			}
			list = append(list, startPoint{name, at, strike.Kill, 0}, startPoint{name, at, strike.KillAfter, 0})
		}
	}
	return list
}

// judge says what is wrong with how a start ended.
func (tr *startTrial) judge(t *testing.T, p *startPlace, s started) (wrong []string) {
	t.Helper()
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	ran := strings.Contains(s.out, "probe: ran")
	killed := s.Killed && s.ExitCode < 0 // nsrun itself
	switch {
	case s.hung:
		note("it hangs")
	case killed: // the next command removes what it left
		c := p.command(tr.flags, "true")
		if out, err := c.CombinedOutput(); err != nil {
			note("the next command: %v %s", err, out)
		}
	case s.ExitCode == 0 && !ran:
		note("exit status 0, and the command did not run to its end")
	case s.ExitCode != 0:
		if s.ExitCode != 137 {
			wrong = append(wrong, badEnd(s.Result, s.said)...)
		}
		// The process that was killed can be that of the command, and a call that failed can be that which executes it.
		if killed, exec := s.ExitCode == 137 && s.Killed, s.ExitCode == 126 && s.Call.Name == "execve"; !killed && !exec && s.ExitCode != 125 {
			note("exit status %d", s.ExitCode)
		}
	}
	for _, line := range tr.bad(s.out) {
		note("the command %s", strings.TrimPrefix(line, "probe: "))
	}
	if ran && s.out != tr.whole.out && s.out != withoutCapabilities(tr.whole.out) && len(tr.said(s)) == 0 {
		note("the sandbox is another one, and nobody says so: %s, not %s", s.out, tr.whole.out)
	}
	if left := p.left(t); len(left) > 0 {
		note("left: %q", left)
	}
	if list := p.sessions(t); len(list) > 0 && !ran && !killed {
		note("left: %q", list)
	}
	return wrong
}

// said is what nsrun says more than without a fault.
func (tr *startTrial) said(s started) (more []string) {
	count := len(strings.Split(tr.whole.said, "\n"))
	for line := range strings.Lines(s.said) {
		if !strings.Contains(line, " made") && !strings.Contains(line, "kept 1 change") && !strings.Contains(line, "committed 1 change") {
			more = append(more, line)
		}
	}
	return more[:min(len(more), max(0, len(more)-count+len(more)))]
}

func (p *startPlace) drop(t *testing.T) {
	t.Helper()
	(&struckPlace{dir: p.dir}).drop(t)
}

// TestStartsStruck lets system calls of nsrun run fail, and of the processes that it makes, and kills them there. Then
// the command does not run, and nsrun says why; or it runs, with all that protects from it.
// NSRUN_SEEDS="7 100" chooses 100 more faults for each way to start by the seed 7.
func TestStartsStruck(t *testing.T) {
	testenv.NeedNamespaces(t)
	testenv.Leaks(t, reap)
	seed, many := seeds(t, 0, 100) // how often a call is made can differ from run to run, and with it what a seed means
	if _, err := exec.LookPath("bash"); err != nil {
		testenv.Skip(t, "bash", err.Error())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	base, bin := testenv.Dir(t), installed(t)
	for i, flags := range startFlags {
		if many == 0 && !(testenv.Turn(i) && testenv.Part(i/2, 2)) {
			continue
		}
		t.Run(cmp.Or(strings.ReplaceAll(strings.ReplaceAll(flags, "--", ""), " ", "-"), "plain"), func(t *testing.T) {
			tr := &startTrial{flags: flags, base: base, bin: bin, port: l.Addr().(*net.TCPAddr).Port}
			tr.run(t)
			tr.try(t, seed, many)
		})
	}
}

// try strikes the start at so many points.
func (tr *startTrial) try(t *testing.T, seed uint64, many int) {
	t.Helper()
	h := fnv.New64a()
	_, _ = h.Write([]byte(tr.flags))
	points := tr.points()
	rand.New(rand.NewPCG(seed, h.Sum64())).Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	t.Logf(`%d calls, %d points; NSRUN_SEEDS="%d %d" repeats these`, len(tr.calls), len(points), seed, many)
	always := slices.DeleteFunc(slices.Clone(startsAlways), func(pt startPoint) bool { return tr.calls[pt.name] < pt.at })
	for _, pt := range append(always, points[:min(many, len(points))]...) {
		p := newStartPlace(t, tr.base, tr.bin, tr.port)
		s := p.start(t, tr.flags, pt.plan())
		if wrong := tr.judge(t, p, s); len(wrong) > 0 {
			t.Errorf("%s\n\tstatus %d: %s\n\t%s", pt, s.ExitCode, short(s.said), strings.Join(wrong, "\n\t"))
		}
		p.drop(t)
	}
}

// short is the beginning of what nsrun said, which can be a trace of all goroutines.
func short(said string) string {
	const most = 600
	said = strings.TrimSpace(said)
	return said[:min(len(said), most)]
}
