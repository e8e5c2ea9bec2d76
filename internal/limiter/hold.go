//go:build linux

package limiter

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/nsrun/nsrun/internal/cgroups"
	"github.com/nsrun/nsrun/internal/limits"
	"github.com/nsrun/nsrun/internal/userscope"
	"golang.org/x/sys/unix"
)

// A Hold enforces the limits of one command.
type Hold struct {
	limits limits.Limits
	held   []limits.Held
	v2     *os.File         // the command's cgroup; nil: none
	own    *cgroups.Group   // the same, if the Hold made it
	scope  *userscope.Scope // moves the command to own; nil: it can start there
	v1     []v1Group
	oom    *oomWatch
	disk   *diskWatch
	usage  *usageWatch
	ended  bool
}

type v1Group struct {
	*cgroups.Group
	controller limits.Controllers
}

// Hold prepares to enforce limits. in is the cgroup of v2 in which the command runs anyway, which then gets the limits
// too; nil: there is none. read measures what the command writes to its session; nil: it has no session. sharesUsers
// says that the command has no user namespace of its own, so that the kernel counts its processes together with others
// of its user.
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

// makeV2 makes a cgroup of v2, or takes in, and sets its limits.
func (x *Hold) makeV2(h *Host, in *os.File) error {
	want := x.limits.Wanted() & h.facts.V2
	if x.v2 = in; in == nil {
		g, err := h.v2.Make()
		if err != nil {
			return fmt.Errorf("make a cgroup: %w", err)
		}
		x.own, x.v2 = g, g.Dir
		if h.moves() {
			x.scope = h.scope
		}
	} else if have := cgroups.EnableAbove(in, want.Names()); len(have) < len(want.Names()) {
		return fmt.Errorf("the cgroup of the network's rules has no controllers for limits, but %v of %v (try: --net-by broker)", have, want.Names())
	}
	return set(x.v2, limits.SettingsV2(x.limits, want))
}

// set writes limits to the files of a cgroup.
func set(cgroup *os.File, list []limits.Setting) error {
	for _, s := range list {
		err := cgroups.Write(int(cgroup.Fd()), s.File, s.Text)
		if err != nil && !(s.Optional && errors.Is(err, unix.ENOENT)) {
			return fmt.Errorf("set %s: %w", s.File, err)
		}
	}
	return nil
}

// makeV1 makes a cgroup in each hierarchy of v1, and sets its limits.
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
		if err := set(g.Dir, limits.SettingsV1(x.limits, c)); err != nil {
			return err
		}
		if c == limits.MemoryController {
			if x.oom, err = newOOMWatch(g.Dir); err != nil {
				return fmt.Errorf("watch memory.oom_control: %w", err)
			}
		}
	}
	return nil
}

// Held returns the limits, and what enforces each of them.
func (x *Hold) Held() []limits.Held { return x.held }

// Cgroup returns the cgroup of v2 that was made for the command to start in. Nil: none was made, or Place moves the
// command there.
func (x *Hold) Cgroup() *os.File {
	if x.own == nil || x.scope != nil {
		return nil
	}
	return x.own.Dir
}

// Places reports whether Place must be called.
func (x *Hold) Places() bool {
	return x.scope != nil || len(x.v1) > 0 || x.limits.Nice > 0 || x.limits.IdleIO
}

// Place applies limits to a process that has not executed the command yet.
func (x *Hold) Place(pid int) error {
	if x.scope != nil {
		if err := x.scope.Attach(x.own, pid); err != nil {
			return err
		}
	}
	for _, g := range x.v1 {
		if err := cgroups.Write(int(g.Dir.Fd()), "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("enter a cgroup: %w", err)
		}
	}
	if n := x.limits.Nice; n > 0 {
		if now, err := unix.Getpriority(unix.PRIO_PROCESS, pid); err == nil && 20-now >= n { // the system call returns 20-nice
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

// Begin starts to enforce the limits that nsrun measures, after the command was executed. kill ends all its processes.
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

// End returns what happened to the limits, and releases everything. No process of the command may run any more. Calling
// it again does nothing.
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
		if o.Name == limits.Memory && x.oom != nil && x.oom.fired { // maybe before the kernel killed and counted
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

// read reads a file of a cgroup. Empty: there is none.
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

// Rlimits returns the resource limits that enforce some of the limits. None is above this process's own.
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
