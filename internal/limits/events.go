package limits

import (
	"strconv"
	"strings"
)

// Field is the number after a name in a file such as memory.events; 0 if there is none.
func Field(text, name string) int64 {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}

// Quota is a number of processors in the kernel's form: time per period, in microseconds.
func Quota(cpus float64) (quota, period int64) {
	const usual, least = 100_000, 1000
	period = usual
	if cpus*usual < least { // quotas below one millisecond are refused
		period = 1_000_000
	}
	return max(least, int64(cpus*float64(period))), period
}

type Setting struct {
	File, Text string
	Optional   bool // kernels without that file are no worse for it
}

// oneMore is for PID 1 of the sandbox, which is not one of the command's processes.
const oneMore = 1

func SettingsV2(l Limits, c Controllers) (list []Setting) {
	if c&MemoryController != 0 && l.Memory > 0 {
		list = append(list, Setting{"memory.max", number(l.Memory), false}, Setting{"memory.oom.group", "1", false})
		if l.Swap >= 0 {
			list = append(list, Setting{"memory.swap.max", number(l.Swap), true})
		}
	}
	if c&PIDsController != 0 && l.PIDs > 0 {
		list = append(list, Setting{"pids.max", number(int64(l.PIDs) + oneMore), false})
	}
	if c&CPUController != 0 && l.CPUs > 0 {
		quota, period := Quota(l.CPUs)
		list = append(list, Setting{"cpu.max", number(quota) + " " + number(period), false})
	}
	return list
}

// SettingsV1 are the limits for a cgroup in the v1 hierarchy of one controller.
func SettingsV1(l Limits, c Controllers) (list []Setting) {
	switch c {
	case MemoryController:
		// What the kernel keeps for TCP connections counts apart, and only if it has a limit.
		list = append(list, Setting{"memory.limit_in_bytes", number(l.Memory), false}, Setting{"memory.kmem.tcp.limit_in_bytes", number(l.Memory), true})
		if l.Swap >= 0 {
			list = append(list, Setting{"memory.memsw.limit_in_bytes", number(l.Memory + l.Swap), true})
		}
		if l.Swap == 0 {
			list = append(list, Setting{"memory.swappiness", "0", true})
		}
	case PIDsController:
		list = append(list, Setting{"pids.max", number(int64(l.PIDs) + oneMore), false})
	case CPUController:
		quota, period := Quota(l.CPUs)
		list = append(list, Setting{"cpu.cfs_period_us", number(period), false}, Setting{"cpu.cfs_quota_us", number(quota), false})
	}
	return list
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

type Outcome struct {
	Held
	Hit    bool
	Killed bool    // the command was ended for it
	Lost   error   // why it could not be measured any more, for which the command was ended; nil: it could
	Peak   float64 // the most that was used; 0: nobody counted
}

// ReadV2 reads the outcome of a limit from the files of its v2 cgroup; missing files are empty.
func ReadV2(o *Outcome, file func(name string) string) {
	switch o.Name {
	case Memory:
		events := file("memory.events")
		o.Hit = Field(events, "oom_kill") > 0 || Field(events, "oom_group_kill") > 0
		o.Killed, o.Peak = o.Hit, value(file("memory.peak"))
	case Swap:
		o.Peak = value(file("memory.swap.peak"))
		o.Hit = Field(file("memory.swap.events"), "max") > 0
	case PIDs:
		o.Hit = Field(file("pids.events"), "max") > 0
		o.Peak = max(0, value(file("pids.peak"))-oneMore)
	case CPUs:
		o.Hit = Field(file("cpu.stat"), "nr_throttled") > 0
	}
}

// ReadV1 is ReadV2 for a cgroup of v1. Only the files for memory differ.
func ReadV1(o *Outcome, file func(name string) string) {
	if o.Name != Memory {
		ReadV2(o, file)
		return
	}
	o.Hit = Field(file("memory.oom_control"), "oom_kill") > 0
	o.Killed, o.Peak = o.Hit, value(file("memory.max_usage_in_bytes"))
}

func value(text string) float64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return float64(n)
}
