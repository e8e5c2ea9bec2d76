package limits

import (
	"errors"
	"slices"
	"strings"
)

// By is the mechanism that enforces a limit, as reports name it.
type By string

// The mechanisms, from the strictest to the weakest.
const (
	ByV2       By = "cgroup v2"
	ByV1       By = "cgroup v1"
	ByRlimit   By = "rlimit"   // setrlimit(2)
	ByPriority By = "priority" // setpriority(2), ioprio_set(2)
	ByRunner   By = "nsrun"    // which copies the output, and looks again and again at what was written and is used
)

type Controllers uint8

// Controllers that enforce limits.
const (
	MemoryController Controllers = 1 << iota
	PIDsController
	CPUController
)

func (c Controllers) Names() (names []string) {
	for i, name := range [...]string{"memory", "pids", "cpu"} {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// ParseControllers parses a list such as cgroup.controllers, and ignores others.
func ParseControllers(text string) (c Controllers) {
	for name := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' || r == ',' || r == '\n' }) {
		switch name {
		case "memory":
			c |= MemoryController
		case "pids":
			c |= PIDsController
		case "cpu":
			c |= CPUController
		}
	}
	return c
}

// Wanted are the controllers that enforce the limits best.
func (l *Limits) Wanted() (c Controllers) {
	if l.Memory > 0 {
		c |= MemoryController
	}
	if l.PIDs > 0 {
		c |= PIDsController
	}
	if l.CPUs > 0 {
		c |= CPUController
	}
	return c
}

type Facts struct {
	V2, V1  Controllers // that cgroups made by this process have
	Swap1   bool        // V1's memory controller counts swap
	NoSwap  bool        // the host has no swap
	Session bool        // the command writes to one
	// OwnProcesses says that RLIMIT_NPROC counts and limits the processes of a sandbox alone.
	OwnProcesses bool
	// Managed says that systemd's manager of the user's services makes cgroups, but none with the missing controllers.
	Managed bool
	// Sees says that all processes of a sandbox can be found and measured.
	Sees bool
}

// Held is a limit and the mechanism that enforces it.
type Held struct {
	Name  Name
	Value float64
	By    By
	Less  string // how it is held less well than asked; empty: it is not
}

// Error is a limit that nothing here can enforce.
type Error struct {
	Name    Name
	Managed bool // see Facts
}

func (e *Error) Error() string {
	if e.Name == Disk || e.Name == Inodes {
		return "the limit --" + string(e.Name) + " cannot be enforced: the command has no session"
	}
	remedy := Remedy
	if e.Managed {
		remedy = managedRemedy
	}
	return "the limit --" + string(e.Name) + " cannot be enforced here: it needs a cgroup with the controller " + e.Name.Controller().Names()[0] + remedy
}

func (e *Error) Unwrap() error { return errors.ErrUnsupported }

// lookedAt says what is lost without a cgroup.
const lookedAt = "it measures up to 100 times a second, and does not count what the kernel keeps for the command"

// Remedy says how a user gets a cgroup.
const Remedy = " (try: nsrun as root, or in a cgroup that was delegated to this user)"

const managedRemedy = ", which systemd gives to no user's services here (try: sudo nsrun doctor --fix, and log in again)"

// Controller is the controller of a limit; 0: none.
func (n Name) Controller() Controllers {
	switch n {
	case Memory, Swap:
		return MemoryController
	case PIDs:
		return PIDsController
	case CPUs:
		return CPUController
	}
	return 0
}

// Plan chooses the mechanism for each limit on a host with these facts. An error is about a limit that nothing can
// enforce.
func Plan(l Limits, f Facts) (list []Held, err error) {
	add := func(name Name, value float64, by By, less string) {
		if value != 0 {
			list = append(list, Held{name, value, by, less})
		}
	}
	by := func(c Controllers) By {
		switch {
		case f.V2&c != 0:
			return ByV2
		case f.V1&c != 0:
			return ByV1
		}
		return ""
	}
	if l.Memory > 0 {
		switch memory := by(MemoryController); {
		case memory != "":
			add(Memory, float64(l.Memory), memory, "")
		case f.Sees:
			add(Memory, float64(l.Memory), ByRunner, lookedAt)
		default:
			return nil, &Error{Memory, f.Managed}
		}
		swap, err := l.swap(by(MemoryController), f)
		if err != nil {
			return nil, err
		}
		list = append(list, swap...)
	}
	if l.PIDs > 0 {
		pids := by(PIDsController)
		switch {
		case pids != "":
			add(PIDs, float64(l.PIDs), pids, "")
		case f.OwnProcesses:
			add(PIDs, float64(l.PIDs), ByRlimit, "")
		case f.Sees:
			add(PIDs, float64(l.PIDs), ByRunner, lookedAt)
		default:
			return nil, &Error{PIDs, f.Managed}
		}
	}
	if l.CPUs > 0 {
		cpu := by(CPUController)
		if cpu == "" {
			return nil, &Error{CPUs, f.Managed}
		}
		add(CPUs, l.CPUs, cpu, "")
	}
	switch {
	case l.Disk > 0 && !f.Session:
		return nil, &Error{Name: Disk}
	case l.Inodes > 0 && !f.Session:
		return nil, &Error{Name: Inodes}
	}
	add(OpenFiles, float64(l.OpenFiles), ByRlimit, "")
	add(FileSize, float64(l.FileSize), ByRlimit, "")
	add(Output, float64(l.Output), ByRunner, "")
	add(Disk, float64(l.Disk), ByRunner, "")
	add(Inodes, float64(l.Inodes), ByRunner, "")
	add(Nice, float64(l.Nice), ByPriority, "")
	if l.IdleIO {
		add(IdleIO, 1, ByPriority, "")
	}
	return list, nil
}

// List are the requested limits, on a host that can enforce all.
func (l Limits) List() []Held {
	list, _ := Plan(l, Facts{V2: MemoryController | PIDsController | CPUController, Session: true})
	return list
}

// swap chooses the mechanism for the swap limit, which needs a memory limit; none if there is no swap.
func (l *Limits) swap(by By, f Facts) ([]Held, error) {
	switch {
	case l.Swap < 0 || f.NoSwap:
		return nil, nil
	case by == ByV2, by == ByV1 && f.Swap1:
		if l.Swap == 0 {
			return nil, nil // it is held, and nobody asked
		}
		return []Held{{Swap, float64(l.Swap), by, ""}}, nil
	case l.Swap > 0:
		return nil, &Error{Swap, f.Managed}
	}
	return nil, nil
}

// Has reports whether a mechanism enforces one of the limits.
func Has(list []Held, by By, names ...Name) bool {
	return slices.ContainsFunc(list, func(h Held) bool { return h.By == by && (len(names) == 0 || slices.Contains(names, h.Name)) })
}
