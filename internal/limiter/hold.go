//go:build linux

package limiter

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/nsrun/nsrun/internal/cgroups"
	"github.com/nsrun/nsrun/internal/limits"
	"golang.org/x/sys/unix"
)

// A Hold holds the limits of one command.
type Hold struct {
	limits limits.Limits
	held   []limits.Held
	v2     *os.File       // the command's cgroup; nil: none
	own    *cgroups.Group // is v2, where it was made here
	v1     []v1Group
	oom    *oomWatch
	disk   *diskWatch
	usage  *usageWatch
	ended  bool
}

// v1Group is a cgroup of a hierarchy of v1.
type v1Group struct {
	*cgroups.Group
	controller limits.Controllers
}

// Hold prepares to hold limits. Where the command is to be in a cgroup of v2 anyway (nil: it is not), that has them, too.
// What it writes to its session (nil: it has none) is told by read. Where it has no user namespace of its own
// (sharesUsers), the kernel counts its user's other processes with its own.
func (h *Host) Hold(l limits.Limits, in *os.File, read Reader, sharesUsers bool) (_ *Hold, err error) {
	facts, err := h.look(&l)
	if err != nil {
		return nil, err
	}
	facts.Session = read != nil
	facts.OwnProcesses = facts.OwnProcesses && !sharesUsers
	held, err := limits.Plan(l, facts)
	if err != nil {
		return nil, err
	}
	x := &Hold{limits: l, held: held, usage: newUsageWatch(held)}
	defer func() {
		if err != nil {
			x.End()
		}
	}()
	if l.Disk > 0 || l.Inodes > 0 {
		if x.disk, err = newDiskWatch(&l, read); err != nil {
			return nil, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if limits.Has(held, limits.ByV2) {
		if err := x.makeV2(h, in); err != nil {
			return nil, err
		}
	}
	if limits.Has(held, limits.ByV1) {
		if err := x.makeV1(h); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// makeV2 makes a cgroup of v2, or takes the one that there is.
func (x *Hold) makeV2(h *Host, in *os.File) error {
	want := x.limits.Wanted() & h.facts.V2
	if x.v2 = in; in == nil {
		g, err := h.v2.Make()
		if err != nil {
			return fmt.Errorf("make a cgroup: %w", err)
		}
		x.own, x.v2 = g, g.Dir
	} else if have := cgroups.EnableAbove(in, want.Names()); len(have) < len(want.Names()) {
		return fmt.Errorf("the cgroup of the network's rules has no controllers for limits, but %v of %v (try: --net-by broker)", have, want.Names())
	}
	for _, s := range limits.SettingsV2(x.limits, want) {
		err := cgroups.Write(int(x.v2.Fd()), s.File, s.Text)
		if err != nil && !(s.Optional && errors.Is(err, unix.ENOENT)) {
			return fmt.Errorf("set %s: %w", s.File, err)
		}
	}
	return nil
}

// makeV1 makes a cgroup in each hierarchy.
func (x *Hold) makeV1(h *Host) error {
	for _, c := range [...]limits.Controllers{limits.MemoryController, limits.PIDsController, limits.CPUController} {
		p := h.v1[c]
		if p == nil || x.limits.Wanted()&c == 0 {
			continue
		}
		g, err := p.Make()
		if err != nil {
			return fmt.Errorf("make a cgroup: %w", err)
		}
		x.v1 = append(x.v1, v1Group{g, c})
		for _, s := range limits.SettingsV1(x.limits, c) {
			err := cgroups.Write(int(g.Dir.Fd()), s.File, s.Text)
			if err != nil && !(s.Optional && errors.Is(err, unix.ENOENT)) {
				return fmt.Errorf("set %s: %w", s.File, err)
			}
		}
		if c == limits.MemoryController {
			if x.oom, err = newOOMWatch(g.Dir); err != nil {
				return fmt.Errorf("watch memory.oom_control: %w", err)
			}
		}
	}
	return nil
}

// Held says what holds which limit.
func (x *Hold) Held() []limits.Held { return x.held }

// Cgroup is the cgroup of v2 in which the command begins. Nil: none was made here.
func (x *Hold) Cgroup() *os.File {
	if x.own == nil {
		return nil
	}
	return x.own.Dir
}

// Places says that Place has to be called.
func (x *Hold) Places() bool { return len(x.v1) > 0 || x.limits.Nice > 0 || x.limits.IdleIO }

// Place puts a process, which executes nothing of the command's yet, where its limits are.
func (x *Hold) Place(pid int) error {
	for _, g := range x.v1 {
		if err := cgroups.Write(int(g.Dir.Fd()), "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("enter a cgroup: %w", err)
		}
	}
	if n := x.limits.Nice; n > 0 {
		if now, err := unix.Getpriority(unix.PRIO_PROCESS, pid); err == nil && 20-now >= n { // the call tells 20 less it
			n = 0
		}
		if n > 0 {
			if err := unix.Setpriority(unix.PRIO_PROCESS, pid, n); err != nil {
				return fmt.Errorf("set priority: %w", err)
			}
		}
	}
	if x.limits.IdleIO {
		const whoProcess, classIdle = 1, 3 << 13
		if _, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, whoProcess, uintptr(pid), classIdle); errno != 0 {
			return fmt.Errorf("set I/O priority: %w", errno)
		}
	}
	return nil
}

// Begin has limits held that have to be looked after. The command was executed; kill ends all of it.
func (x *Hold) Begin(pid int, kill func()) {
	if x.oom != nil {
		x.oom.begin(kill)
	}
	if x.disk != nil {
		x.disk.begin(pid, kill)
	}
	if x.usage != nil {
		x.usage.begin(pid, kill)
	}
}

// End says what became of the limits, and gives everything back. Nothing of the command may run any more. Once more it
// does nothing.
func (x *Hold) End() []limits.Outcome {
	if x == nil || x.ended {
		return nil
	}
	x.ended = true
	x.oom.end()
	x.disk.end()
	x.usage.end()
	list := make([]limits.Outcome, 0, len(x.held))
	for _, h := range x.held {
		o := limits.Outcome{Held: h}
		switch h.By {
		case limits.ByV2:
			limits.ReadV2(&o, func(name string) string { return read(x.v2, name) })
		case limits.ByV1:
			for _, g := range x.v1 {
				if g.controller == h.Name.Controller() {
					limits.ReadV1(&o, func(name string) string { return read(g.Dir, name) })
				}
			}
		}
		if x.disk != nil {
			x.disk.state(&o)
		}
		x.usage.state(&o)
		if o.Name == limits.Memory && x.oom != nil && x.oom.fired { // before the kernel had to kill, which it counts
			o.Hit, o.Killed = true, true
		}
		list = append(list, o)
	}
	if x.own != nil {
		x.own.Discard()
	}
	for _, g := range x.v1 {
		g.DiscardV1()
	}
	return list
}

// read reads a file of a cgroup, "" where there is none.
func read(dir *os.File, name string) string {
	if dir == nil {
		return ""
	}
	text, _ := cgroups.Read(int(dir.Fd()), name)
	return text
}

// Rlimit is a resource limit, see setrlimit(2).
type Rlimit struct {
	Resource   int
	Soft, Hard uint64
}

// Rlimits are the resource limits that hold what they hold. None is above that of this process.
func (x *Hold) Rlimits() (list []Rlimit) {
	add := func(resource int, value int64) {
		n := uint64(value)
		var now unix.Rlimit
		if unix.Getrlimit(resource, &now) == nil {
			n = min(n, now.Max)
		}
		list = append(list, Rlimit{resource, n, n})
	}
	for _, h := range x.held {
		switch {
		case h.Name == limits.OpenFiles:
			add(unix.RLIMIT_NOFILE, int64(h.Value))
		case h.Name == limits.FileSize:
			add(unix.RLIMIT_FSIZE, int64(h.Value))
		case h.Name == limits.PIDs && h.By == limits.ByRlimit:
			add(unix.RLIMIT_NPROC, int64(h.Value)+1) // and PID 1
		}
	}
	return list
}
