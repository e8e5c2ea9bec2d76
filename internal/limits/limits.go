package limits

import (
	"fmt"
	"math"
)

// Limits has the fields of nsrun.Limits. The zero Limits limit nothing.
type Limits struct {
	Memory, Swap     int64
	PIDs             int
	CPUs             float64
	OpenFiles        int
	FileSize, Output int64
	Disk             int64
	Inodes           int
	Nice             int
	IdleIO           bool
}

type Name string

const (
	Memory    Name = "memory"
	Swap      Name = "swap"
	PIDs      Name = "pids"
	CPUs      Name = "cpus"
	OpenFiles Name = "nofile"
	FileSize  Name = "fsize"
	Output    Name = "output"
	Disk      Name = "disk"
	Inodes    Name = "inodes"
	Nice      Name = "nice"
	IdleIO    Name = "idle-io"
)

// leastMemory is what a sandbox needs before its command starts.
const leastMemory = 1 << 20

const leastFiles = 4

const leastCPUs, mostNice = 0.01, 19

// mostPIDs and mostCPUs are what the kernel's cgroups take, with room for nsrun's own process.
const mostPIDs, mostCPUs = 1<<22 - 2, 1 << 16

// Bounds are the least and the most that Check allows for a limit that is a number. A most of zero: there is none.
func Bounds(name Name) (least, most float64) {
	switch name {
	case Memory:
		return leastMemory, 0
	case CPUs:
		return leastCPUs, mostCPUs
	case PIDs:
		return 1, mostPIDs
	case OpenFiles:
		return leastFiles, 0
	case Nice:
		return 1, mostNice
	case Swap:
		return 0, 0
	}
	return 1, 0
}

// Check finds invalid limits.
func (l *Limits) Check() error {
	for _, f := range [...]struct {
		name  Name
		value float64
	}{
		{Memory, float64(l.Memory)}, {PIDs, float64(l.PIDs)}, {CPUs, l.CPUs}, {OpenFiles, float64(l.OpenFiles)},
		{FileSize, float64(l.FileSize)}, {Output, float64(l.Output)}, {Disk, float64(l.Disk)},
		{Inodes, float64(l.Inodes)},
	} {
		if f.value < 0 || math.IsNaN(f.value) || math.IsInf(f.value, 0) {
			return fmt.Errorf("the limit %s is negative, or no number", f.name)
		}
	}
	switch {
	case l.Memory > 0 && l.Memory < leastMemory:
		return fmt.Errorf("the limit %s is less than %s, with which no command can start", Memory, FormatSize(leastMemory))
	case l.Swap != 0 && l.Memory == 0:
		return fmt.Errorf("the limit %s needs a limit %s", Swap, Memory)
	case l.CPUs != 0 && l.CPUs < leastCPUs:
		return fmt.Errorf("the limit %s is less than %g", CPUs, leastCPUs)
	case l.CPUs > mostCPUs:
		return fmt.Errorf("the limit %s is more than %d", CPUs, mostCPUs)
	case l.PIDs > mostPIDs:
		return fmt.Errorf("the limit %s is more than %d: no kernel has as many processes", PIDs, mostPIDs)
	case l.OpenFiles != 0 && l.OpenFiles < leastFiles:
		return fmt.Errorf("the limit %s is less than %d, with which no command can start", OpenFiles, leastFiles)
	case l.Nice < 0 || l.Nice > mostNice:
		return fmt.Errorf("%s must be from 1 to %d", Nice, mostNice)
	}
	return nil
}

// Tighten returns the stricter of both for each limit.
func (l Limits) Tighten(q Limits) Limits {
	l.Memory, l.PIDs, l.CPUs = smaller(l.Memory, q.Memory), smaller(l.PIDs, q.PIDs), smaller(l.CPUs, q.CPUs)
	l.OpenFiles, l.FileSize = smaller(l.OpenFiles, q.OpenFiles), smaller(l.FileSize, q.FileSize)
	l.Output, l.Disk, l.Inodes = smaller(l.Output, q.Output), smaller(l.Disk, q.Disk), smaller(l.Inodes, q.Inodes)
	if q.Swap > 0 && (l.Swap < 0 || q.Swap < l.Swap) {
		l.Swap = q.Swap
	}
	l.Nice, l.IdleIO = max(l.Nice, q.Nice), l.IdleIO || q.IdleIO
	return l
}

// smaller is the smaller of two limits, of which 0 is none.
func smaller[T int | int64 | float64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
