//go:build linux

package nsrun_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

func limitOf(t *testing.T, res nsrun.Result, name string) nsrun.Limit {
	t.Helper()
	i := slices.IndexFunc(res.Limits, func(l nsrun.Limit) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("there is no limit %s in %+v (%v)", name, res.Limits, res.Err)
	}
	return res.Limits[i]
}

// limited runs a command with limits. One that nothing here holds skips the test, and so it must be said.
func limited(t *testing.T, c nsrun.Config, l nsrun.Limits, command string) nsrun.Result {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil && strings.Contains(command, "python3") {
		testenv.Skip(t, "python3", err.Error())
	}
	c.Limits, c.Timeout = l, testenv.Patience
	r := nsrun.NewRunner(c)
	defer r.Close()
	res, err := r.Run(t.Context(), nsrun.Request{Command: command})
	if errors.Is(err, errors.ErrUnsupported) {
		if !strings.Contains(err.Error(), "try: ") || res.Started {
			t.Errorf("no remedy, or it ran: %v", err)
		}
		testenv.Skip(t, "cgroup controllers", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// refusedBy fails the test if a limit is not among what the command was refused, as kind, op, target and flag in words.
func refusedBy(t *testing.T, res nsrun.Result, want string) {
	t.Helper()
	var got []string
	for _, r := range res.Refusals {
		got = append(got, strings.Join([]string{string(r.Kind), r.Op, r.Target, r.Flag}, " "))
	}
	if !slices.Contains(got, want) {
		t.Errorf("refused were %q, want %q", got, want)
	}
}

// bombs use memory in different ways: 256 MiB of it, so that the host does not notice where nothing holds them.
var bombs = map[string]string{
	"one process":    `exec python3 -c 'import time; x = bytearray(256 << 20); time.sleep(1000)'`,
	"many processes": `for i in 1 2 3 4 5 6 7 8; do python3 -c 'import time; x = bytearray(32 << 20); time.sleep(60)' & done; wait`,
	"tmpfs":          `head -c 256M /dev/zero >/tmp/x`,
	"shared memory":  `head -c 256M /dev/zero >/dev/shm/x`,
}

// TestMemoryLimit: a tree of processes is one unit, with what it writes to a tmpfs. The control has a limit that is not
// reached. With cgroup v1 the kernel kills one process, and nsrun the others, so they have to be there still.
func TestMemoryLimit(t *testing.T) {
	for name, bomb := range bombs {
		t.Run(name, func(t *testing.T) {
			testenv.Leaks(t, nsexec.Shutdown)
			res := limited(t, nsrun.Config{NoPlayground: true}, nsrun.Limits{Memory: 48 << 20}, bomb+"; sleep 1000; echo survived")
			l := limitOf(t, res, "memory")
			// With cgroup v1, nsrun learns it after the kernel killed one process. Others may go on until
			// then.
			survived := l.By != "cgroup v1" && strings.Contains(res.Stdout.String(), "survived")
			if !l.Hit || !l.Killed || survived || res.ExitCode != 137 {
				t.Errorf("%+v, exit code %d\n%s", l, res.ExitCode, res)
			}
			if want := "killed: memory limit 48 MiB reached"; l.String() != want || !strings.Contains(res.String(), "memory limit 48 MiB reached") {
				t.Errorf("%s\n%s", l, res)
			}
			refusedBy(t, res, "signal SIGKILL memory --memory 96M")
		})
	}
	res := limited(t, nsrun.Config{NoPlayground: true}, nsrun.Limits{Memory: 400 << 20}, bombs["tmpfs"]+"; echo survived")
	if l := limitOf(t, res, "memory"); l.Hit || !strings.Contains(res.Stdout.String(), "survived") {
		t.Errorf("control: %+v\n%s", l, res)
	}
}

// TestSocketMemory: what the kernel keeps for TCP connections counts, too. The control has no limit.
func TestSocketMemory(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	const most = 48
	command := `python3 -c '
import socket
l = socket.socket()
l.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
l.bind(("127.0.0.1", 0))
l.listen(1000)
kept, sent = [], 0
for i in range(100):
    s = socket.create_connection(l.getsockname())
    kept += [s, l.accept()]
    s.setblocking(False)
    try:
        while True:
            sent += s.send(b"x" * 65536)
    except OSError:
        pass
print(sent >> 20)'`
	sent := func(res nsrun.Result) int {
		n, err := strconv.Atoi(strings.TrimSpace(res.Stdout.String()))
		if err != nil {
			t.Fatalf("%v\n%s", err, res)
		}
		return n
	}
	if n := sent(limited(t, nsrun.Config{NoPlayground: true}, nsrun.Limits{}, command)); n < 3*most {
		t.Fatalf("the control: %d MiB", n)
	}
	res := limited(t, nsrun.Config{NoPlayground: true}, nsrun.Limits{Memory: most << 20}, command)
	// Without a cgroup nsrun counts, and does not see it.
	if l := limitOf(t, res, "memory"); l.By != "nsrun" && !l.Killed && sent(res) > most {
		t.Errorf("%d MiB, %+v", sent(res), l)
	}
}

// TestProcessLimit: a fork bomb stays small, and others can be started meanwhile.
func TestProcessLimit(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	res := limited(t, nsrun.Config{NoPlayground: true}, nsrun.Limits{PIDs: 16},
		`python3 -c '
import os
n = 0
try:
    while n < 200:
        if os.fork() == 0:
            os.read(os.pipe()[0], 1)
        n += 1
except OSError as e:
    print(n, e.errno)
    exit(1)
'`)
	l := limitOf(t, res, "pids")
	if out := res.Stdout.String(); !strings.HasSuffix(out, " 11\n") || !strings.HasPrefix(out, "1") || len(out) != len("14 11\n") {
		t.Errorf("the command made %q processes, want 14 or 15 and EAGAIN\n%s", out, res)
	}
	if l.By != "rlimit" {
		if !l.Hit || l.Killed {
			t.Errorf("%+v", l)
		}
		refusedBy(t, res, "syscall syscall clone --pids 32")
	}
}

// TestProcessLimitIsNamed: if the limit is reached and stays so for a while, it is named, whatever enforces it. Fewer
// processes do not reach it.
func TestProcessLimitIsNamed(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	for script, hit := range map[string]bool{
		`python3 -c '
import os, time
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
except OSError:
    time.sleep(2)
'`: true,
		"for i in 1 2 3 4; do sleep 1 & done; wait": false,
	} {
		l := limitOf(t, limited(t, nsrun.Config{NoPlayground: true}, nsrun.Limits{PIDs: 8}, script), "pids")
		if l.Hit != hit || l.Killed && l.By != "nsrun" || l.Peak < 4 || l.Peak > 9 {
			t.Errorf("%s: %+v", script, l)
		}
	}
}

// TestLimitsInMessages: the kernel does not tell which resource limits a command reached. If it failed and says so,
// they are named.
func TestLimitsInMessages(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	pids, size, files := nsrun.Limits{PIDs: 12}, nsrun.Limits{FileSize: 1 << 20}, nsrun.Limits{OpenFiles: 40}
	for _, c := range []struct {
		limits  nsrun.Limits
		script  string
		refused string // empty: the limit was not reached
	}{
		{pids, "python3 -c '\nimport os\nwhile True:\n    if os.fork() == 0:\n        os.read(os.pipe()[0], 1)\n'", "syscall syscall clone --pids 24"},
		{pids, "python3 -c '\nimport threading, time\nfor i in range(99):\n    threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n'", "syscall syscall clone --pids 24"},
		{pids, "while :; do sleep 9 & done", "syscall syscall clone --pids 24"},
		{pids, "echo read: Resource temporarily unavailable >&2; false", ""},
		{pids, "echo fork: Resource temporarily unavailable >&2", ""}, // and it goes on
		{size, "python3 -c 'open(\"/tmp/x\", \"wb\").write(bytes(2 << 20))'", "syscall syscall write --fsize 2M"},
		{size, "python3 -c 'open(\"/tmp/x\", \"wb\").write(bytes(1 << 20))'; echo too large >&2; false", ""},
		{size, "echo File too large >&2", ""},
		{files, "python3 -c '[open(\"/dev/null\") for i in range(99)]'", "syscall syscall open --nofile 80"},
		{files, "echo Error: EMFILE, open >&2; false", "syscall syscall open --nofile 80"}, // as Node says it
		{files, "echo open: No such file or directory >&2; false", ""},
		{files, "echo Too many open files >&2", ""},
	} {
		res := limited(t, nsrun.Config{NoPlayground: true}, c.limits, c.script)
		if l := res.Limits[0]; l.By == "nsrun" {
			continue // which kills the command
		} else if l.Hit != (c.refused != "") || l.Killed {
			t.Errorf("%s: %+v: %s", c.script, l, res)
		}
		if c.refused != "" {
			refusedBy(t, res, c.refused)
		}
	}
}

// TestFileLimits: resource limits enforce these on every host.
func TestFileLimits(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	res := limited(t, nsrun.Config{NoPlayground: true}, nsrun.Limits{OpenFiles: 20, FileSize: 1 << 20, Nice: 7},
		"ulimit -n; ulimit -Hn; nice; exec head -c 2M /dev/zero >/tmp/x")
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // the system call returns 20 less the number
	if err != nil {
		t.Fatal(err)
	}
	if got, want := res.Stdout.String(), "20\n20\n"+strconv.Itoa(max(7, 20-own))+"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if l := limitOf(t, res, "fsize"); !l.Hit || !l.Killed || res.ExitCode != 128+25 {
		t.Errorf("%+v, exit code %d", l, res.ExitCode)
	}
	refusedBy(t, res, "signal SIGXFSZ fsize --fsize 2M")
	child := limited(t, nsrun.Config{NoPlayground: true}, nsrun.Limits{FileSize: 1 << 20}, "head -c 2M /dev/zero >/tmp/x; exit $?")
	if l := limitOf(t, child, "fsize"); !l.Hit || l.Killed || child.ExitCode != 128+25 {
		t.Errorf("a child of the shell: %+v, exit code %d", l, child.ExitCode)
	}
	if res := limited(t, nsrun.Config{NoPlayground: true}, nsrun.Limits{FileSize: 2 << 20}, "exec head -c 2M /dev/zero >/tmp/x"); res.ExitCode != 0 || len(res.Refusals) > 0 {
		t.Errorf("with the flag: %+v: %s", res.Refusals, res)
	}
	if l := limitOf(t, res, "nofile"); l.Hit || l.By != "rlimit" || l.Value != 20 {
		t.Errorf("%+v", l)
	}
}

// TestOutputLimit: a flood ends, and nothing of it beyond the limit comes through, to a Result or to files. The control
// writes as much as it may.
func TestOutputLimit(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	c := nsrun.Config{NoPlayground: true, MaxOutput: -1, Limits: nsrun.Limits{Output: 100_000}, Timeout: testenv.Patience}
	r := nsrun.NewRunner(c)
	defer r.Close()
	file, err := os.Create(testenv.Dir(t) + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, q := range map[string]nsrun.Request{
		"one":         {Command: "yes"},
		"two":         {Command: "yes & yes >&2"},
		"merged":      {Command: "yes & yes >&2", Merge: true},
		"in the back": {Command: "(yes &) ; sleep 1000"},
		"passed on":   {Command: "yes & yes >&2", Passthrough: true, Stdout: file, Stderr: file},
	} {
		res, err := r.Run(t.Context(), q)
		l := limitOf(t, res, "output")
		n := len(res.Stdout.Bytes()) + len(res.Stderr.Bytes())
		if q.Passthrough {
			fi, _ := file.Stat()
			n = int(fi.Size())
		}
		if err != nil || !l.Hit || !l.Killed || l.By != "nsrun" || l.Peak <= 100_000 || n != 100_000 || res.ExitCode != 137 {
			t.Errorf("%s: %v, %#v, %d bytes, exit code %d", name, err, l, n, res.ExitCode)
		}
		refusedBy(t, res, "signal SIGKILL output --output 200000")
	}
	res, err := r.Run(t.Context(), nsrun.Request{Command: "head -c 50000 /dev/zero; head -c 50000 /dev/zero >&2"})
	if l := limitOf(t, res, "output"); err != nil || l.Hit || l.Peak != 100_000 || res.ExitCode != 0 {
		t.Errorf("control: %v, %#v", err, l)
	}
}

// TestDiskLimit: a command that writes too much to its session, or makes too many files there, is killed, however it
// writes. The control writes less.
func TestDiskLimit(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	const most, files = 16 << 20, 300
	// Not as fast as it can: who looks how much it is may have to wait for a processor.
	const flood = "while :; do head -c 1M /dev/zero; sleep 0.02; done"
	// Of what is in a closed directory or in a socket only the disk tells, and if others free more meanwhile, nothing
	// does: that is tried again.
	const closed = "mkdir -p d; cd d; chmod 0300 .; for i in $(seq 500); do head -c 1M /dev/zero; sleep 0.02; done >x"
	for _, c := range []struct {
		name, limit, command string
		engine               overlay.Engine
	}{
		{"a file", "disk", flood + " >x", 0},
		{"a file of a copy", "disk", flood + " >x", overlay.EngineCopy},
		{"a file on a tmpfs", "disk", "head -c 256M /dev/zero >x; sleep 1000", overlay.EngineTmpfs},
		{"many files", "disk", "i=0; while :; do head -c 1M /dev/zero >$i; i=$((i+1)); done", 0},
		{"a file without a name", "disk", "exec 3>x; rm x; " + flood + " >&3", 0},
		{"a closed directory", "disk", closed, 0},
		{"the playground", "disk", flood + " >~/playground/x", 0},
		{"a closed directory of the playground", "disk", "cd ~/playground; " + closed, 0},
		{"inodes in the playground", "inodes", "i=0; while :; do mkdir ~/playground/$i; i=$((i+1)); done", 0},
		{"a file that is only mapped", "disk", `/usr/bin/python3 -c 'import ctypes, os, time
f = os.open("x", os.O_CREAT | os.O_RDWR); os.unlink("x"); os.ftruncate(f, 64 << 20)
c = ctypes.CDLL(None); c.mmap.restype = ctypes.c_void_p # that of Python keeps the file open
p = c.mmap(None, ctypes.c_size_t(64 << 20), 3, 1, f, ctypes.c_long(0)); os.close(f); ctypes.memset(p, 1, 64 << 20)
time.sleep(1000)'`, 0},
		{"a file in a socket", "disk", `/usr/bin/python3 -c 'import os, socket, time
f = os.open("x", os.O_CREAT | os.O_RDWR); os.unlink("x"); a, b = socket.socketpair()
for i in range(12): os.write(f, bytes(1 << 20))
socket.send_fds(a, [b"x"], [f]); os.close(f)
f = os.open("y", os.O_CREAT | os.O_RDWR); os.unlink("y")
for i in range(12): os.write(f, bytes(1 << 20))
time.sleep(10)'`, 0},
		{"in the back", "disk", "(" + flood + " >x &); sleep 1000", 0},
		{"inodes", "inodes", "i=0; while :; do : >$i; i=$((i+1)); done", 0},
		{"directories", "inodes", "i=0; while :; do mkdir -p $i/d/d/d/d/d/d/d/d/d; i=$((i+1)); done", overlay.EngineCopy},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const py = "/usr/bin/python3"
			if _, err := os.Stat(py); err != nil && strings.Contains(c.command, py) {
				testenv.Skip(t, "python3", err.Error())
			}
			config := nsrun.Config{Project: testenv.Dir(t), StateDir: testenv.Dir(t), Engine: c.engine, After: nsrun.Discard, Playground: testenv.Dir(t)}
			testenv.Tree(t, config.Playground, "old: of a command before")
			needFor(t, config)
			l := nsrun.Limits{Disk: most, Inodes: files}
			if c.limit == "disk" {
				l.Inodes = 0
			}
			res := limited(t, config, l, "ulimit -f 2000000; "+c.command)
			told := strings.HasSuffix(c.command, closed) || strings.Contains(c.command, "send_fds") // by the disk
			for try := 1; told && !limitOf(t, res, c.limit).Hit && try < 10; try++ {
				res = limited(t, config, l, c.command)
			}
			if l := limitOf(t, res, c.limit); !l.Hit || !l.Killed || l.By != "nsrun" || l.Peak <= l.Value || res.ExitCode != 137 {
				t.Errorf("%#v, exit code %d: %s", l, res.ExitCode, res.Stderr.Bytes())
			}
			if strings.HasSuffix(c.command, closed) {
				config.Playground = testenv.Dir(t) // with a closed directory in it, what others write may count
			}
			res = limited(t, config, l, "head -c 4M /dev/zero >x; mkdir d; exec 3>y; rm y; echo >&3")
			if l := limitOf(t, res, c.limit); l.Hit || l.Killed || l.Peak == 0 || res.ExitCode != 0 {
				t.Errorf("control: %#v, exit code %d", l, res.ExitCode)
			}
		})
	}
	r := nsrun.NewRunner(nsrun.Config{Project: testenv.Dir(t), Mode: nsrun.Direct, NoPlayground: true, Limits: nsrun.Limits{Disk: 1 << 20}})
	defer r.Close()
	res, err := r.Run(t.Context(), nsrun.Request{Command: "true"})
	if e, ok := errors.AsType[*nsrun.LimitError](err); !ok || e.Name != "disk" || !errors.Is(err, errors.ErrUnsupported) || res.Started {
		t.Errorf("written in place: %v", err)
	}
}

// TestRequestTightens: a request's limits are held where they are stricter, and only there.
func TestRequestTightens(t *testing.T) {
	r := nsrun.NewRunner(nsrun.Config{NoPlayground: true, Limits: nsrun.Limits{OpenFiles: 40}})
	defer r.Close()
	for _, c := range []struct {
		asked int
		want  string
	}{{0, "40\n"}, {30, "30\n"}, {50, "40\n"}} {
		res, err := r.Run(t.Context(), nsrun.Request{Command: "ulimit -n", Limits: nsrun.Limits{OpenFiles: c.asked}})
		if err != nil || res.Stdout.String() != c.want {
			t.Errorf("%d: %q, %v", c.asked, res.Stdout.String(), err)
		}
	}
	if _, err := r.Run(t.Context(), nsrun.Request{Command: "true", Limits: nsrun.Limits{Memory: -1}}); err == nil {
		t.Error("a negative limit was taken")
	}
	res, err := nsrun.NewRunner(nsrun.Config{NoPlayground: true}).Run(t.Context(), nsrun.Request{Command: "true"})
	if err != nil || res.Limits != nil {
		t.Errorf("%v, %v", res.Limits, err)
	}
}

// TestGrace: what ignores the request to end is killed when its grace is over.
func TestGrace(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	for timeout := 300 * time.Millisecond; ; timeout *= 4 {
		r := nsrun.NewRunner(nsrun.Config{NoPlayground: true, Timeout: timeout, Grace: 100 * time.Millisecond})
		res, err := r.Run(t.Context(), nsrun.Request{Command: "trap '' TERM; echo ignored; while :; do sleep 100; done"})
		_ = r.Close()
		if res.Stdout.String() == "" && timeout < time.Minute {
			continue // the machine is too busy: it was over before the command began, or ignored anything
		}
		if err != nil || !res.TimedOut || res.Signal != os.Kill {
			t.Errorf("%v, %+v", err, res)
		}
		refusedBy(t, res, "signal SIGKILL timeout --timeout "+(2*timeout).String())
		return
	}
}

// TestFewFilesManySent: a low limit of open files holds for the command, not for its set-up, whatever the user's other
// processes have sent each other and not received.
func TestFewFilesManySent(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	const few = 30
	if err := unix.Sendmsg(pair[0], []byte{1}, unix.UnixRights(slices.Repeat([]int{int(null.Fd())}, few+10)...), nil, 0); err != nil {
		t.Fatal(err)
	}
	r := runner(t, nsrun.Config{Project: filepath.Join(place(t), "p"), After: nsrun.Discard, Limits: nsrun.Limits{OpenFiles: few}})
	if got := sh(t, r, "ulimit -Sn; ulimit -Hn"); got != "30\n30\n" {
		t.Errorf("%q", got)
	}
}
