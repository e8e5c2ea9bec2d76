//go:build linux && !race

package differ

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// Some things only show while a sandbox runs, or after it: who lives, who dies of
// what, and what is held meanwhile. Such a scene is played with either program.
type scene struct {
	p            *place
	program, bin string
	r            result
	all          []*running
}

func (s *scene) note(key string, value any) { s.r[key] = fmt.Sprint(value) }

// start starts the program; its standard input stays open.
func (s *scene) start(args string, fds ...string) *running {
	return s.startLine(&line{args: args, fds: fds, stdin: "open"})
}

func (s *scene) startLine(l *line) *running {
	x := s.p.start(s.program, s.bin, l, nil)
	s.all = append(s.all, x)
	return x
}

// await waits until something is so, and notes it if it never was.
func (s *scene) await(what string, cond func() bool) bool {
	if idle(3*time.Second, cond) {
		return true
	}
	s.note("in vain: "+what, tree(os.Getpid()))
	return false
}

// tree shows a process's descendants: "a[2](b c)" is a, process 2 in its pid
// namespace, with the children b and c. Those in the host's have no number.
func tree(pid int) string {
	children := make(map[int][]testenv.Process)
	for _, p := range testenv.Processes() {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var show func(pid int) string
	show = func(pid int) string {
		var names []string
		for _, c := range children[pid] {
			name := c.Name
			if f := strings.Fields(status(c.Pid)["NSpid"]); len(f) > 1 {
				name += "[" + f[len(f)-1] + "]"
			}
			if c.State == "Z" || c.State == "T" {
				name += " " + c.State
			}
			if below := show(c.Pid); below != "" {
				name += "(" + below + ")"
			}
			names = append(names, name)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	return show(pid)
}

func status(pid int) map[string]string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	m := make(map[string]string)
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(line, ":")
		m[k] = strings.Join(strings.Fields(v), " ")
	}
	return m
}

// find is a descendant of that name, 0 if there is none.
func find(name string) int {
	if all := findAll(name); len(all) > 0 {
		return all[0]
	}
	return 0
}

func findAll(name string) (found []int) {
	all := testenv.Processes()
	parents := make(map[int]int)
	for _, p := range all {
		parents[p.Pid] = p.Parent
	}
	for _, p := range all {
		if p.Name != name || p.State == "Z" {
			continue
		}
		for pid := p.Pid; pid > 1; pid = parents[pid] {
			if pid == os.Getpid() {
				found = append(found, p.Pid)
				break
			}
		}
	}
	return found
}

func (s *scene) running(name string) func() bool { return func() bool { return find(name) != 0 } }

// settled waits until the processes that are left stay the same: all of them asleep, for
// one that is about to end may have to wait for a processor.
func (s *scene) settled() string {
	last, end := "?", time.Now().Add(time.Minute)
	for last != "" && time.Now().Before(end) && idle(60*time.Millisecond, func() bool {
		s.reap()
		was := last
		last = tree(os.Getpid())
		return last != was
	}) {
	}
	if last == "" {
		return "nobody"
	}
	return last
}

// idle waits until cond holds, or until no process below this one has had anything to do for a while. On a busy
// machine, a process that is about to act may wait long for a processor.
func idle(limit time.Duration, cond func() bool) bool {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	for since := began; !cond(); <-tick.C {
		switch {
		case time.Since(began) > 5*time.Second+20*limit: // it works for ever
			return cond()
		case working():
			since = time.Now()
		case time.Since(since) > limit:
			return cond()
		}
	}
	return true
}

// working reports whether a process below this one is doing something.
func working() bool {
	parents, states := make(map[int]int), make(map[int]string)
	for _, p := range testenv.Processes() {
		parents[p.Pid], states[p.Pid] = p.Parent, p.State
	}
	for pid, state := range states {
		if state != "R" && state != "D" {
			continue
		}
		for at := parents[pid]; at > 1; at = parents[at] {
			if at == os.Getpid() {
				return true
			}
		}
	}
	return false
}

// reap waits for those who have ended, but not for monitors: that is done by wait.
func (s *scene) reap() {
	for _, c := range testenv.Processes() {
		if c.Parent == os.Getpid() && c.State == "Z" &&
			!slices.ContainsFunc(s.all, func(x *running) bool { return x.cmd.Process.Pid == c.Pid }) {
			_, _ = unix.Wait4(c.Pid, nil, unix.WNOHANG, nil)
		}
	}
}

func play(name, only string, f func(s *scene)) job {
	return job{name: name, what: name, only: only, do: func(p *place, program, bin string) result {
		p.make()
		p.used = true
		s := &scene{p: p, program: program, bin: bin, r: make(result)}
		f(s)
		for _, x := range s.all {
			if x.cmd.ProcessState == nil {
				_ = x.cmd.Process.Kill()
				x.wait()
			}
		}
		clean(0)
		for i, x := range s.all {
			r := make(result)
			x.collect(r)
			if s.r[fmt.Sprint("facts.", i)] == "" {
				for k, v := range r {
					v = jsonNS.ReplaceAllString(jsonPid.ReplaceAllString(v, "pid"), "$1: ns")
					s.note(fmt.Sprintf("%d.%s", i, k), v)
				}
			}
		}
		for k, v := range s.r {
			s.r[k] = strings.NewReplacer(p.dir, "$F", bin, "$B").Replace(v)
		}
		return s.r
	}}
}

// facts reads the output of the probe, and notes it as the result of a run.
func (s *scene) facts(x *running) map[string]string {
	facts := make(map[string]string)
	i := slices.Index(x.names, "stdout")
	s.await("the probe's facts", func() bool {
		return json.Unmarshal([]byte(x.texts[i].String()), &facts) == nil
	})
	return facts
}

// noteFacts notes those facts that do not depend on when the probe runs.
func (s *scene) noteFacts(x *running, more map[string]string) {
	r := make(result)
	i := slices.Index(x.names, "stdout")
	r["stdout"] = x.texts[i].String()
	known := make(map[string]string)
	for k, v := range x.known {
		known[k] = v
	}
	for k, v := range more {
		known[k] = v
	}
	s.p.normalise(r, x.cmd.Process.Pid, known)
	for k, v := range r {
		s.r[x.paths.Replace(k)] = x.paths.Replace(v)
	}
	x.texts[i].b.Reset()
}

// shapes are the ways processes stand to each other.
var shapes = []string{"", "--unshare-pid", "--unshare-pid --as-pid-1", "--sync-fd 3", "--lock-file $F/lock", "--unshare-pid --sync-fd 3 --lock-file $F/lock",
	"--unshare-all", "--new-session", "--unshare-pid --new-session"}

func scenes() (jobs []job) {
	const host = "--bind / / --dev /dev "
	for _, shape := range shapes {
		run := func(s *scene, more, command string) *running {
			return s.start(host+shape+" "+more+" -- "+command, "data:")
		}
		name := func(what string) string { return strings.Join(strings.Fields(what+" "+shape), " ") }
		jobs = append(jobs, play(name("tree"), "", func(s *scene) {
			x := run(s, "", "sleep 60")
			s.await("sleep", s.running("sleep"))
			s.note("tree", s.settled())
			s.processes(x)
		}))
		if strings.Contains(shape, "--new-session") || strings.Contains(shape, "-fd 3 --lock") {
			continue
		}
		for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGINT} {
			jobs = append(jobs, play(name(fmt.Sprint("monitor killed by ", int(sig))), "user", func(s *scene) {
				x := run(s, "", "sleep 60")
				s.await("sleep", s.running("sleep"))
				_ = x.cmd.Process.Signal(sig)
				s.note("exit", x.wait())
				s.note("left", s.settled())
			}))
		}
		jobs = append(jobs, play(name("monitor killed, die with parent"), "user", func(s *scene) {
			x := run(s, "--die-with-parent", "sleep 60")
			s.await("sleep", s.running("sleep"))
			_ = x.cmd.Process.Kill()
			s.note("exit", x.wait())
			s.note("left", s.settled())
		}), play(name("monitor killed, die with parent, grandchild"), "user", func(s *scene) {
			x := run(s, "--die-with-parent", "sh -c sleep·60;·true")
			s.await("sleep", s.running("sleep"))
			_ = x.cmd.Process.Kill()
			s.note("exit", x.wait())
			s.note("left", s.settled())
		}), play(name("parent killed, die with parent"), "user", func(s *scene) {
			x := s.startLine(&line{args: host + shape + " --die-with-parent -- sleep 60", fds: []string{"data:"}, stdin: "open", wrap: "sh -c \"$@\";·true sh"})
			s.await("sleep", s.running("sleep"))
			_ = x.cmd.Process.Kill()
			s.note("exit", x.wait())
			s.note("left", s.settled())
		}), play(name("orphans"), "user", func(s *scene) {
			run(s, "", "sh -c (sh·-c·'sleep·0.05'·&);·(exec·sleep·0.1);·exec·sleep·60")
			s.await("the last sleep alone", func() bool {
				all := findAll("sleep")
				if len(all) != 1 {
					return false
				}
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", all[0]))
				return string(line) == "sleep\x0060\x00"
			})
			s.note("tree", s.settled())
		}), play(name("stopped"), "user", func(s *scene) {
			x := run(s, "", "sleep 60")
			s.await("sleep", s.running("sleep"))
			pid := find("sleep")
			_ = unix.Kill(pid, unix.SIGSTOP)
			s.await("stopped", func() bool {
				p, _ := testenv.FindProcess(strconv.Itoa(pid))
				return p.State == "T"
			})
			s.note("tree", s.settled())
			_ = unix.Kill(find("sleep"), unix.SIGCONT)
			_ = unix.Kill(find("sleep"), unix.SIGKILL)
			s.note("exit", x.wait())
		}))
		if !strings.Contains(shape, "--as-pid-1") { // its end would end the other one
			jobs = append(jobs, play(name("background"), "user", func(s *scene) {
				x := run(s, "", "sh -c sleep·60·<&-·>&-·2>&-·&·echo·$?")
				s.await("sleep", s.running("sleep"))
				s.note("monitor waits", !exits(x, enough))
				s.note("left", s.settled())
				if pid := find("sleep"); pid != 0 {
					_ = unix.Kill(pid, unix.SIGKILL)
				}
				s.note("exit", x.wait())
				s.note("left after", s.settled())
			}), play(name("background, die with parent"), "user", func(s *scene) {
				x := run(s, "--die-with-parent", "sh -c sleep·60·<&-·>&-·2>&-·&·sleep·0.05")
				s.note("monitor waits", !exits(x, enough))
				s.note("left", s.settled())
				if pid := find("sleep"); pid != 0 {
					_ = unix.Kill(pid, unix.SIGKILL)
				}
				s.note("exit", x.wait())
				s.note("left after", s.settled())
			}))
		}
		signals := []syscall.Signal{1, 2, 9, 13, 15, 34, 64}
		if strings.Contains(shape, "-fd") || strings.Contains(shape, "lock") || strings.Contains(shape, "all") {
			signals = []syscall.Signal{10}
		}
		for _, sig := range signals {
			jobs = append(jobs, play(name(fmt.Sprint("command killed by ", int(sig))), "user", func(s *scene) {
				x := run(s, "", "sleep 60")
				s.await("sleep", s.running("sleep"))
				if pid := find("sleep"); pid != 0 {
					_ = unix.Kill(pid, sig)
				}
				if !exits(x, enough) { // PID 1 does not die of every signal
					s.note("lives", tree(os.Getpid()))
					_ = unix.Kill(find("sleep"), unix.SIGKILL)
				}
				s.note("exit", x.wait())
			}))
		}
	}
	for _, shape := range []string{"--unshare-pid", "--sync-fd 3", "--unshare-all --die-with-parent"} {
		jobs = append(jobs, play("reaper killed "+shape, "", func(s *scene) {
			x := s.start(host+shape+" -- sleep 60", "data:")
			s.await("sleep", s.running("sleep"))
			parent, _ := testenv.FindProcess(strconv.Itoa(find("sleep")))
			if parent.Parent != x.cmd.Process.Pid {
				_ = unix.Kill(parent.Parent, unix.SIGKILL)
			} else {
				s.note("reaper", "none")
			}
			s.note("exit", x.wait())
			s.note("left", s.settled())
		}))
	}
	return append(jobs, held()...)
}

// enough is how long who is about to exit may take for it while nobody works. It passes
// where somebody stays.
const enough = 800 * time.Millisecond

// exits reports whether the monitor ends within that time.
func exits(x *running, limit time.Duration) bool {
	return idle(limit, func() bool { return !testenv.Alive(x.cmd.Process.Pid) })
}

// processes notes of the monitor and of whatever is between it and the command
// what others can see of them.
func (s *scene) processes(x *running) {
	pid := find("sleep")
	for i := 1; ; i++ {
		p, ok := testenv.FindProcess(strconv.Itoa(pid))
		if !ok || p.Pid == x.cmd.Process.Pid {
			return
		}
		pid = p.Parent
		key := fmt.Sprintf("above.%d.", i)
		st := status(pid)
		for _, k := range []string{"SigBlk", "SigIgn", "SigCgt", "Threads", "CapBnd", "CapEff", "CapInh", "CapAmb", "NoNewPrivs", "Seccomp", "Uid", "Gid", "Groups"} {
			s.note(key+k, st[k])
		}
		sid, _ := unix.Getsid(pid)
		pgid, _ := unix.Getpgid(pid)
		for name, id := range map[string]int{"sid": sid, "pgid": pgid} {
			switch id {
			case pid:
				s.note(key+name, "its own")
			case session(0), unix.Getpgrp():
				s.note(key+name, "the test's")
			default:
				s.note(key+name, "another")
			}
		}
		for _, name := range []string{"cwd", "root", "fd/0", "fd/1", "fd/2"} {
			to, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", pid, name))
			s.note(key+name, anonymous.ReplaceAllString(to, "[…]")+errText(err))
		}
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err == nil {
			var given []string
			for _, e := range entries {
				var st unix.Stat_t
				if unix.Stat(fmt.Sprintf("/proc/%d/fd/%s", pid, e.Name()), &st) == nil {
					if name := x.known[fmt.Sprintf("inode %d dev %d", st.Ino, st.Dev)]; name != "" {
						given = append(given, name)
					}
				}
			}
			s.note(key+"descriptors of the test", given)
		}
		for _, ns := range []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} {
			at, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns))
			own, _ := os.Readlink("/proc/self/ns/" + ns)
			s.note(key+"ns."+ns, map[bool]string{true: "the test's", false: "new"}[at == own]+map[bool]string{true: " unreadable"}[at == ""])
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := err.(*os.PathError); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// held are the scenes in which a sandbox keeps something open, or something keeps the sandbox open.
func held() []job {
	const base = "--bind / / --dev /dev "
	locked := func(s *scene) string {
		f, err := os.OpenFile(filepath.Join(s.p.dir, "lock"), os.O_RDWR, 0)
		if err != nil {
			return err.Error()
		}
		defer f.Close()
		lk := unix.Flock_t{Type: unix.F_WRLCK}
		if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lk); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("type %d from %d length %d", lk.Type, lk.Start, lk.Len)
	}
	var jobs []job
	for _, shape := range []string{"", "--unshare-pid "} {
		jobs = append(jobs, play("lock "+shape, "", func(s *scene) {
			x := s.start(base + shape + "--lock-file $F/lock -- sleep 60")
			s.await("sleep", s.running("sleep"))
			s.await("lock", func() bool { return !strings.HasPrefix(locked(s), "type 2") })
			s.note("locked", locked(s))
			_ = unix.Kill(find("sleep"), unix.SIGKILL)
			s.note("exit", x.wait())
			s.note("left", s.settled())
			s.note("locked after", locked(s))
		}), play("sync "+shape, "", func(s *scene) {
			x := s.start(base+shape+"--sync-fd 3 -- sh -c sleep·60·&·exec·true", "watch")
			s.await("sleep", s.running("sleep"))
			s.note("tree", s.settled())
			s.note("open", isOpen(x.kept[3]))
			_ = unix.Kill(find("sleep"), unix.SIGKILL)
			s.note("exit", x.wait())
			s.note("left", s.settled())
			s.note("open after", isOpen(x.kept[3]))
		}), play("closed by the command "+shape, "", func(s *scene) {
			x := s.start(base+shape+"-- sh -c exec·3>&-;·exec·sleep·60", "watch")
			s.await("sleep", s.running("sleep"))
			_ = s.settled()
			s.note("open", isOpen(x.kept[3]))
		}), play("block "+shape, "", func(s *scene) {
			x := s.start(base+shape+"--block-fd 3 --info-fd 4 --json-status-fd 5 -- echo done", "hold", "out", "out")
			s.await("info", func() bool { return strings.HasSuffix(x.texts[0].String(), "}\n") })
			s.note("tree", s.settled())
			s.note("status so far", jsonNS.ReplaceAllString(jsonPid.ReplaceAllString(x.texts[1].String(), "pid"), "ns"))
			s.note("printed", x.texts[2].String())
			_, _ = x.kept[3].Write([]byte("x"))
			s.note("exit", x.wait())
		}), play("block ended by closing "+shape, "", func(s *scene) {
			x := s.start(base+shape+"--block-fd 3 -- echo done", "hold")
			s.note("tree", s.settled())
			_ = x.kept[3].Close()
			s.note("exit", x.wait())
		}), play("blocked, monitor killed "+shape, "", func(s *scene) {
			x := s.start(base+shape+"--die-with-parent --block-fd 3 -- echo done", "hold")
			_ = s.settled()
			_ = x.cmd.Process.Kill()
			s.note("exit", x.wait())
			s.note("left", s.settled())
		}), play("user namespace blocked "+shape, "", func(s *scene) {
			x := s.start("BASE "+shape+"--unshare-user --uid 0 --gid 0 --userns-block-fd 3 --info-fd 4", "hold", "out")
			s.await("info", func() bool { return strings.HasSuffix(x.texts[0].String(), "}\n") })
			var info map[string]int
			if err := json.Unmarshal([]byte(x.texts[0].String()), &info); err != nil {
				s.note("info", x.texts[0].String())
			}
			pid := info["child-pid"]
			s.note("child is the monitor's", status(pid)["PPid"] == strconv.Itoa(x.cmd.Process.Pid))
			dir := fmt.Sprintf("/proc/%d/", pid)
			before, err := os.ReadFile(dir + "uid_map")
			s.note("map before", string(before)+errText(err))
			groups, err := os.ReadFile(dir + "setgroups")
			s.note("setgroups before", string(groups)+errText(err))
			if s.p.who.uid != 0 && os.Geteuid() != 0 {
				s.note("setgroups", errText(os.WriteFile(dir+"setgroups", []byte("deny"), 0)))
			}
			s.note("uid_map", errText(os.WriteFile(dir+"uid_map", fmt.Appendf(nil, "0 %d 1", s.p.who.uid), 0)))
			s.note("gid_map", errText(os.WriteFile(dir+"gid_map", fmt.Appendf(nil, "0 %d 1", s.p.who.gid), 0)))
			_, _ = x.kept[3].Write([]byte("1"))
			s.note("exit", x.wait())
			x.read()
			s.noteFacts(x, nil)
			x.texts[0].b.Reset()
		}))
	}
	for _, join := range []string{"--userns 3", "--userns 3 --uid 5 --gid 6", "--userns 3 --uid 7 --gid 8", "--pidns 4", "--userns 3 --pidns 4", "--userns 3 --pidns 4 --unshare-pid",
		"--userns 3 --pidns 4 --proc /proc", "--userns 3 --unshare-all", "--userns 3 --dev /dev", "--userns 3 --pidns 4 --sync-fd 5",
		"--pidns 4 --info-fd 5", "--userns 3 --pidns 4 --json-status-fd 5", "--userns2 3", "--userns 3 --userns2 3",
		"--unshare-user --userns2 3", "--userns 3 --disable-userns", "--userns 3 --cap-add ALL", "--userns 3 --die-with-parent"} {
		jobs = append(jobs, play("join "+join, "", func(s *scene) {
			first := s.start("BASE --unshare-user --uid 5 --gid 6 --unshare-pid -- /probe hold")
			facts := s.facts(first)
			dir := "/proc/" + facts["hostpid"] + "/ns/"
			x := s.startLine(&line{args: "BASE " + join, fds: []string{"file:" + dir + "user", "file:" + dir + "pid", "out"}})
			s.note("exit", x.wait())
			x.read()
			s.noteFacts(x, map[string]string{facts["ns.user"]: "the first sandbox's", facts["ns.pid"]: "the first sandbox's"})
			if strings.Contains(join, "--pidns") && s.r["in.pid"] != "" {
				for _, k := range []string{"in.pid", "in.ppid"} { // the next ones there
					s.r[k] = map[bool]string{true: s.r[k], false: "another"}[s.r[k] == "0" || s.r[k] == "1"]
				}
			}
			s.note("tree", s.settled())
			first.texts[slices.Index(first.names, "stdout")].b.Reset()
		}))
	}
	return append(jobs, terminals()...)
}

// isOpen reports whether somebody has the other end of a pipe.
func isOpen(f *os.File) bool {
	return !idle(30*time.Millisecond, func() bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}, 0)
		return n != 0 && err == nil
	})
}
