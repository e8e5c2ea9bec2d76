//go:build linux && !race

package differ

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// line is a command line to compare.
type line struct {
	// args are words, separated by blanks. Two quotes are an empty word, a middle
	// dot is a blank within a word. $F is the fixture, $B the directory with the
	// programs. HOST stands for a view of the host, BASE for a sandbox that has
	// nothing but the probe, PROBE for the probe as the command; it is added if
	// there is neither a "--" nor NOTHING.
	args string
	// fds are descriptors from 3 on: see descriptor.
	fds []string
	// env is the environment, if not the usual one.
	env []string
	// dir is the working directory, if not the fixture.
	dir string
	// stdin is the text on standard input.
	stdin string
	umask int
	// wrap are words that start the program: env and the like.
	wrap string
	// loose lines end while the command is still running, or not: only the exit
	// status and standard error are compared.
	loose bool
	// repeat is how often {…} stands in args.
	repeat int
	// ownName calls our program nsrun.
	ownName bool
	// only is "root" or "user" where the line makes sense for one of them.
	only string
}

// result is what was seen of a run, under names.
type result map[string]string

type identity struct {
	name   string
	uid    int
	gid    int
	groups []uint32
}

// identities are the users as whom the test can run. If the test is root, these are root, and a user who has further
// groups and does not have the overflow uid.
func identities() []*identity {
	if os.Geteuid() == 0 {
		return []*identity{{name: "root"}, {name: "user", uid: 1234, gid: 4321, groups: []uint32{4321, 5678}}}
	}
	return []*identity{{name: "user", uid: os.Getuid(), gid: os.Getgid()}}
}

const probeName = "/probe"

func (l *line) words(p *place, bin string) []string {
	probe, command := filepath.Join(bin, "probe"), false
	var out []string
	fields := strings.Fields(l.args)
	if before, rest, ok := strings.Cut(l.args, "{"); ok && l.repeat > 0 {
		inner, after, _ := strings.Cut(rest, "}")
		fields = strings.Fields(before + strings.Repeat(" "+inner, l.repeat) + after)
	}
	for _, w := range fields {
		if w == "BASE" {
			probe = probeName
		}
		command = command || w == "--" || w == "PROBE" || w == "NOTHING"
	}
	if !command {
		fields = append(fields, "PROBE")
	}
	for _, w := range fields {
		switch w {
		case "NOTHING":
		case "HOST":
			out = append(out, "--ro-bind", "/", "/")
		case "BASE":
			out = append(out, "--ro-bind", filepath.Join(bin, "probe"), probeName)
		case "PROBE":
			out = append(out, probe, p.in, p.devs)
		case "''":
			out = append(out, "")
		default:
			out = append(out, p.expand(w, bin))
		}
	}
	return out
}

func (p *place) expand(word, bin string) string {
	return strings.NewReplacer("$F", p.dir, "$B", bin, "·", " ").Replace(word)
}

// descriptor opens one for the command line:
//
//	data:TEXT  a pipe with that text     file:PATH  a file for reading
//	rw:PATH    … for reading and writing path:PATH  … with O_PATH
//	mem:TEXT   a file in memory          ns:NAME    a namespace of the test
//	out        a pipe that is read       -          none
//	hold       a pipe to read from, whose other end is kept
//	watch      a pipe to write to, whose other end is kept
func (p *place) descriptor(what string) (child, parent *os.File) {
	kind, arg, _ := strings.Cut(what, ":")
	file := strings.ReplaceAll(arg, "$F", p.dir)
	var err error
	fd := -1
	switch kind {
	case "-":
		return nil, nil
	case "data", "out", "hold", "watch":
		var two [2]int
		if err = unix.Pipe2(two[:], unix.O_CLOEXEC); err != nil {
			break
		}
		if kind == "out" || kind == "watch" {
			_ = unix.SetNonblock(two[0], true) // for a deadline
		}
		r, w := os.NewFile(uintptr(two[0]), what), os.NewFile(uintptr(two[1]), what)
		switch kind {
		case "out", "watch":
			return w, r
		case "hold":
			return r, w
		}
		go func() {
			_, _ = io.WriteString(w, arg)
			_ = w.Close()
		}()
		return r, nil
	case "mem":
		if fd, err = unix.MemfdCreate("data", unix.MFD_CLOEXEC); err == nil {
			_, err = unix.Pwrite(fd, []byte(arg), 0)
		}
	case "file":
		fd, err = unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	case "rw":
		fd, err = unix.Open(file, unix.O_RDWR|unix.O_CLOEXEC, 0)
	case "path":
		fd, err = unix.Open(file, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	case "ns":
		fd, err = unix.Open("/proc/self/ns/"+arg, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	default:
		p.t.Fatal("unknown kind of descriptor: " + what)
	}
	if err != nil {
		p.t.Fatal(what, err)
	}
	return os.NewFile(uintptr(fd), what), nil
}

var defaultEnv = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=$F/home", "A=1", "LC_ALL=C", "B=two words"}

const runLimit = testenv.Patience

// running is a started program.
type running struct {
	p     *place
	cmd   *exec.Cmd
	known map[string]string // device and inode, or a namespace's text → name
	names []string          // of what is read
	outs  []*os.File
	texts []syncBuffer
	done  chan struct{}    // all is read
	kept  map[int]*os.File // our ends of "hold" and "watch"
	late  atomic.Bool      // did not end in time
	loose bool
	paths *strings.Replacer
}

// syncBuffer can be looked at while it is filled.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(data)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (p *place) run(program, bin string, l *line) result {
	p.make()
	x := p.start(program, bin, l, nil)
	return x.finish()
}

// command is the process to start, without its descriptors.
func (p *place) command(program, bin string, l *line) *exec.Cmd {
	cmd := exec.Command(program)
	cmd.Args = append([]string{"bwrap"}, l.words(p, bin)...)
	if l.ownName && strings.HasPrefix(program, filepath.Join(bin, "ours")) {
		cmd.Args[0] = "nsrun"
	}
	if l.wrap != "" {
		words := append(strings.Fields(l.wrap), program)
		for i := range words {
			words[i] = p.expand(words[i], bin)
		}
		path, err := exec.LookPath(words[0])
		if err != nil {
			p.t.Fatal(err)
		}
		cmd.Path, cmd.Args = path, append(words, cmd.Args[1:]...)
	}
	cmd.Dir = p.dir
	if l.dir != "" {
		cmd.Dir = strings.ReplaceAll(l.dir, "$F", p.dir)
	}
	env := l.env
	if env == nil {
		env = defaultEnv
	}
	cmd.Env = []string{}
	for _, e := range env {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(e, "$F", p.dir))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Geteuid() == 0 && p.who.uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(p.who.uid), Gid: uint32(p.who.gid), Groups: p.who.groups}
	}
	return cmd
}

// start starts the program; on the terminal, if there is one.
func (p *place) start(program, bin string, l *line, term *testenv.Terminal) *running {
	cmd := p.command(program, bin, l)
	x := &running{p: p, cmd: cmd, known: make(map[string]string), kept: make(map[int]*os.File), done: make(chan struct{}),
		loose: l.loose, paths: strings.NewReplacer(p.dir, "$F", p.in, "$F", bin, "$B")}
	var ours []*os.File // to be closed after the start
	for i, what := range l.fds {
		child, parent := p.descriptor(what)
		cmd.ExtraFiles = append(cmd.ExtraFiles, child)
		if child != nil {
			ours = append(ours, child)
			x.known[identify(child)] = fmt.Sprintf("given as %d", i+3)
		}
		switch {
		case parent == nil:
		case what == "out":
			x.outs = append(x.outs, parent)
			x.names = append(x.names, fmt.Sprintf("out.%d", i+3))
		default:
			x.kept[i+3] = parent
		}
	}
	for len(cmd.ExtraFiles) < 6 {
		cmd.ExtraFiles = append(cmd.ExtraFiles, nil)
	}
	proc, err := os.Open("/proc")
	if err != nil {
		p.t.Fatal(err)
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, proc) // 9
	x.known[identify(proc)] = "/proc"
	ours = append(ours, proc)
	if term != nil {
		term.Attach(cmd)
		x.known[identify(term.Slave())] = "terminal"
	} else {
		from := "data:" + l.stdin
		if l.stdin == "open" {
			from = "hold"
		}
		stdin, in := p.descriptor(from)
		if in != nil {
			x.kept[0] = in
		}
		stdout, outR := p.descriptor("out")
		stderr, errR := p.descriptor("out")
		x.outs = append(x.outs, outR, errR)
		x.names = append(x.names, "stdout", "stderr")
		x.known[identify(stdin)], x.known[identify(stdout)], x.known[identify(stderr)] = "stdin", "stdout", "stderr"
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
		ours = append(ours, stdin, stdout, stderr)
	}
	umask := 0o022
	if l.umask != 0 {
		umask = l.umask
	}
	old := unix.Umask(umask)
	err = cmd.Start()
	unix.Umask(old)
	for _, f := range ours {
		_ = f.Close()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	x.texts = make([]syncBuffer, len(x.outs))
	var all sync.WaitGroup
	for i, f := range x.outs {
		all.Go(func() { _, _ = io.Copy(&x.texts[i], f) })
	}
	go func() { all.Wait(); close(x.done) }()
	return x
}

// wait waits for the monitor and says how it ended.
func (x *running) wait() string {
	timer := time.AfterFunc(runLimit, func() { x.late.Store(true); _ = x.cmd.Process.Kill() })
	err := x.cmd.Wait()
	timer.Stop()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		x.p.t.Fatal(err)
	}
	ws := x.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return "signal " + ws.Signal().String()
	}
	return strconv.Itoa(ws.ExitStatus())
}

// finish waits, collects what was printed and left, and cleans up.
func (x *running) finish() result {
	r := make(result)
	r["exit"] = x.wait()
	if x.late.Load() {
		r["timeout"] = "yes"
	}
	if left := clean(300 * time.Millisecond); left != "" {
		r["left"] = left
	}
	x.collect(r)
	if x.loose {
		x.p.used = true
		return result{"exit": r["exit"], "stderr": x.paths.Replace(r["stderr"])}
	}
	x.p.left(r)
	x.p.normalise(r, x.cmd.Process.Pid, x.known)
	for k, v := range r {
		delete(r, k)
		r[x.paths.Replace(k)] = x.paths.Replace(v)
	}
	return r
}

// read waits until all is read that was printed.
func (x *running) read() {
	for _, f := range x.outs {
		_ = f.SetReadDeadline(time.Now().Add(runLimit)) // only where somebody keeps it
	}
	<-x.done
}

// collect takes what was printed and closes our ends.
func (x *running) collect(r result) {
	x.read()
	for i, name := range x.names {
		r[name] = x.texts[i].String()
		_ = x.outs[i].Close()
	}
	for _, f := range x.kept {
		_ = f.Close()
	}
}

// identify names a file by what fstat says of it.
func identify(f *os.File) string {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return ""
	}
	return fmt.Sprintf("inode %d dev %d", st.Ino, st.Dev)
}

// clean waits for what a run left behind, and ends it if it does not end.
func clean(patience time.Duration) string {
	var left []string
	nobody := func() bool {
		for {
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != nil || pid == 0 {
				return err != nil
			}
		}
	}
	for ; !idle(patience, nobody); patience = 300 * time.Millisecond {
		for _, c := range testenv.Processes() {
			if c.Parent == os.Getpid() && c.State != "Z" {
				left = append(left, c.Name)
				_ = unix.Kill(c.Pid, unix.SIGKILL)
			}
		}
	}
	return strings.Join(left, ", ")
}

var (
	fdText    = regexp.MustCompile(`inode \d+ dev \d+`)
	anonymous = regexp.MustCompile(`\[\d+\]$`)
	temporary = regexp.MustCompile(`\.?bindfile\w{6}`)
	ptsName   = regexp.MustCompile(`/(dev/pts/)?\d+$`)
	layers    = regexp.MustCompile(`,lowerdir=.*?(,redirect_dir=|,index=|,uuid=|,userxattr|$)`)
	jsonPid   = regexp.MustCompile(`"child-pid": (\d+)`)
	jsonNS    = regexp.MustCompile(`"(\w+)-namespace": (\d+)`)
)

// normalise takes the probe's facts out of standard output, and replaces numbers
// that are not the same in two runs by what they mean.
func (p *place) normalise(r result, monitor int, known map[string]string) {
	facts := make(map[string]string)
	if json.Unmarshal([]byte(r["stdout"]), &facts) != nil || facts["argv"] == "" {
		facts = nil
	} else {
		r["stdout"] = "the probe's"
	}
	// The host's pids on the way up to the monitor.
	up := map[string]string{strconv.Itoa(monitor): "monitor", strconv.Itoa(os.Getpid()): "test"}
	levels := 0
	if facts != nil {
		for ; ; levels++ {
			pid := facts[fmt.Sprintf("up.%d.pid", levels)]
			if pid == "" || pid == strconv.Itoa(os.Getpid()) {
				break
			}
			if levels == 0 {
				up[pid] = "command"
			} else if up[pid] == "" {
				up[pid] = fmt.Sprintf("%d above the command", levels)
			}
		}
		r["in.levels"] = strconv.Itoa(levels)
	}
	inside := facts["up.0.depth"] != "1" && facts != nil
	for k, v := range facts {
		switch {
		case strings.HasPrefix(k, "up."):
			level, rest, _ := strings.Cut(strings.TrimPrefix(k, "up."), ".")
			if n, _ := strconv.Atoi(level); n >= levels || n == 0 || rest == "pid" {
				continue
			}
		case k == "hostpid":
			continue
		case k == "pid", k == "ppid", k == "sid", k == "pgid":
			if !inside {
				switch v {
				case facts["pid"]:
					v = "command"
				case strconv.Itoa(session(0)):
					v = "the test's session"
				case strconv.Itoa(unix.Getpgrp()):
					v = "the test's group"
				default:
					if up[v] != "" {
						v = up[v]
					}
				}
			}
		case strings.HasPrefix(k, "fd.") && strings.HasSuffix(k, ".link"):
			v = anonymous.ReplaceAllString(v, "[…]")
		case strings.HasPrefix(k, "fd.") && !strings.HasSuffix(k, ".offset"):
			v = fdText.ReplaceAllStringFunc(v, func(s string) string {
				if known[s] != "" {
					return known[s]
				}
				return "not given"
			})
		case strings.HasPrefix(k, "ns."):
			own, _ := os.Readlink("/proc/self/ns/" + strings.TrimPrefix(k, "ns."))
			if v == own {
				v = "the test's"
			} else if known[v] != "" {
				v = known[v]
			} else if strings.HasPrefix(v, "error") {
				break
			} else {
				v = "new"
			}
		}
		if strings.HasPrefix(k, "mount.") && strings.HasSuffix(k, " super") {
			// Of an overlay's options those that name layers stand apart.
			if m := layers.FindStringSubmatchIndex(v); m != nil {
				r["in."+strings.TrimSuffix(k, " super")+" layers"] = v[m[0]:m[2]]
				v = v[:m[0]] + v[m[2]:]
			}
		}
		r["in."+k] = v
	}
	for _, k := range []string{"stdout", "stderr"} {
		// Only the first line of the help is compared.
		before, help, ok := strings.Cut(r[k], "usage: ")
		if first, rest, _ := strings.Cut(help, "\n"); ok {
			r[k], r["help"] = before+first, rest
		}
	}
	for k, v := range r {
		r[k] = temporary.ReplaceAllString(v, "bindfile…")
		if strings.HasPrefix(k, "out.") || k == "stdout" {
			v = jsonPid.ReplaceAllStringFunc(v, func(s string) string {
				pid := jsonPid.FindStringSubmatch(s)[1]
				if facts == nil {
					return `"child-pid": some`
				}
				if up[pid] == "" {
					return `"child-pid": of none that the command knows`
				}
				return `"child-pid": ` + up[pid]
			})
			r[k] = jsonNS.ReplaceAllStringFunc(v, func(s string) string {
				m := jsonNS.FindStringSubmatch(s)
				if facts == nil {
					return fmt.Sprintf("%q: some", m[1]+"-namespace")
				}
				if facts["ns."+m[1]] == m[1]+":["+m[2]+"]" {
					return fmt.Sprintf("%q: the command's", m[1]+"-namespace")
				}
				return fmt.Sprintf("%q: another than the command's", m[1]+"-namespace")
			})
		}
	}
}

func session(pid int) int {
	sid, _ := unix.Getsid(pid)
	return sid
}

// short is a line as the name of a test.
func (l *line) short() string {
	s := l.args
	if len(s) > 70 {
		s = s[:70]
	}
	return strings.NewReplacer("/", "⁄", " ", "_").Replace(s)
}
