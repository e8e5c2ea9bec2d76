package nsrun

import "github.com/nsrun/nsrun/internal/limits"

// Limits of a command, with all processes that it starts as one unit. The zero Limits limit nothing, and cost nothing. What
// nothing on this host can hold is a *LimitError, and no command is run; what can only be held less well is a Notice.
type Limits struct {
	// Memory is how many bytes of memory the processes use together, with what they write to a tmpfs (/tmp, /dev/shm) and
	// what the kernel keeps for them. With more all of them are killed. Without a cgroup it is looked again and again, and a
	// Notice says so. Zero: no limit.
	Memory int64
	// Swap is how many bytes of swap they use beyond Memory. Zero: none where Memory is set; in a Request, as in the
	// Config. Negative: no limit.
	Swap int64
	// PIDs is how many processes and threads there are at once; with more, fork(2) and clone(2) fail, or, where
	// there is neither a cgroup nor RLIMIT_NPROC for it, all of them are killed. Zero: no limit.
	PIDs int
	// CPUs is how many processors they use: 1.5 is one and a half. Zero: no limit.
	CPUs float64
	// OpenFiles is how many descriptors each process has. Zero: the caller's limit, which is never raised.
	OpenFiles int
	// FileSize is how many bytes a file that they write has at most. Zero: the caller's limit, which is never raised.
	FileSize int64
	// Output is how many bytes they write to standard output and standard error together. With more all of them are killed,
	// and nothing beyond is passed on. With Request.Passthrough the two are pipes then, and no terminals. Zero: no limit.
	Output int64
	// Disk is how many bytes they write to the session and to the home layer, as du(1) counts them; Inodes is how many files
	// of all kinds they make there. nsrun looks again and again, at most 50 times a second: with more all of them are killed, and what was written since
	// the look before goes beyond. What is written elsewhere, by Direct say, does not count, and without a session these are
	// a *LimitError. Zero: no limit.
	Disk   int64
	Inodes int
	// Nice is how much their processor time is worth less than that of others: 0 to 19, see nice(1). Zero: as the caller's.
	Nice int
	// IdleIO lets them read and write on disks only when nobody else does, where the disk's scheduler can tell. False: as the
	// caller.
	IdleIO bool
}

// A Limit is a limit of a command, and what became of it.
type Limit struct {
	// Name is that of the flag: memory, swap, pids, cpus, nofile, fsize, output, disk, inodes, nice, idle-io.
	Name string `json:"name"`
	// Value is what was asked for, in bytes or as a number.
	Value float64 `json:"value"`
	// By is what held it: "cgroup v2", "cgroup v1", "rlimit", "priority" or "nsrun".
	By string `json:"by"`
	// Hit says that the command reached it, as far as that is known: of fsize it is known only where it ended the command
	// itself; of nofile, nice, idle-io, and of pids by rlimit, it is not.
	Hit bool `json:"hit"`
	// Killed says that the command was ended for it.
	Killed bool `json:"killed"`
	// Peak is the most that was used. Zero: nobody counted.
	Peak float64 `json:"peak"`
	// Less says how it was held less well than asked for. Empty: it was not.
	Less string `json:"less,omitempty"`
}

// String is a line about a limit that was hit: "killed: memory limit 512 MiB reached".
func (l Limit) String() string { return limits.HitText(limits.Name(l.Name), l.Value, l.Killed) }

// LimitError is a limit that cannot be held. Nothing was run. Where nothing on this host holds it, it is an
// errors.ErrUnsupported.
type LimitError struct {
	Name string // that of the flag; empty: several
	Err  error
}

func (e *LimitError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *LimitError) Unwrap() error { return e.Err }

// ParseSize reads a number of bytes: digits, or a number with K, M, G, T or P (powers of 1024), which may be followed by iB.
func ParseSize(text string) (int64, error) { return limits.ParseSize(text) }

// FormatSize is a size for people, such as "512 MiB".
func FormatSize(n int64) string { return limits.FormatSize(n) }

// Check finds mistakes.
func (l Limits) Check() error {
	all := l.all()
	return all.Check()
}

// all are the limits as package limits has them.
func (l Limits) all() limits.Limits {
	return limits.Limits{
		Memory: l.Memory, Swap: l.Swap, PIDs: l.PIDs, CPUs: l.CPUs, OpenFiles: l.OpenFiles, FileSize: l.FileSize,
		Output: l.Output, Disk: l.Disk, Inodes: l.Inodes, Nice: l.Nice, IdleIO: l.IdleIO,
	}
}
