package nsrun

import "github.com/nsrun/nsrun/internal/limits"

// Limits of a command, with all processes that it starts as one unit. The zero Limits limit nothing, and cost nothing.
// If nothing on this host can enforce a limit, the error is a *LimitError, and no command is run. If a limit can only
// be enforced less strictly, a Notice says so.
type Limits struct {
	// Memory is how many bytes of memory the processes may use together, including files on a tmpfs (/tmp,
	// /dev/shm) and memory that the kernel uses for them. If they use more, all of them are killed. Without a
	// cgroup nsrun measures at intervals, and a Notice says so. Zero: no limit.
	Memory int64
	// Swap is how many bytes of swap they may use beyond Memory. Zero: none if Memory is set; in a Request, the
	// value of the Config. Negative: no limit.
	Swap int64
	// PIDs is how many processes and threads there may be at once. If there would be more, fork(2) and clone(2)
	// fail, or, if neither a cgroup nor RLIMIT_NPROC is available, all of them are killed. Zero: no limit.
	PIDs int
	// CPUs is how many processors they may use: 1.5 is the time of one and a half. Zero: no limit.
	CPUs float64
	// OpenFiles is how many descriptors each process may have (RLIMIT_NOFILE). Zero: the caller's limit, which is
	// never raised.
	OpenFiles int
	// FileSize is how large a file that they write may become, in bytes (RLIMIT_FSIZE). Zero: the caller's limit,
	// which is never raised.
	FileSize int64
	// Output is how many bytes they may write to standard output and standard error together. If they write more,
	// all of them are killed, and the rest is not passed on. With Request.Passthrough the two are then pipes, not
	// terminals. Zero: no limit.
	Output int64
	// Disk is how many bytes they may write to the session, the home layer and the playground, as du(1) counts them;
	// Inodes is how many files of all kinds they may create there. nsrun measures at intervals, at most 50 times a second.
	// If they use more, all of them are killed; what they wrote since the last measurement exceeds the limit. Writes
	// elsewhere, for example with Direct, do not count. Without a session these limits are a *LimitError. Zero: no
	// limit.
	Disk   int64
	Inodes int
	// Nice lowers their priority by 0 to 19, see nice(1). Zero: the caller's priority.
	Nice int
	// IdleIO lets them use disks only when nobody else does, if the disk's scheduler supports that (ioprio_set(2)).
	// False: the caller's I/O priority.
	IdleIO bool
}

// A Limit is a limit of a command, and how it was enforced.
type Limit struct {
	// Name is that of the flag: memory, swap, pids, cpus, nofile, fsize, output, disk, inodes, nice, idle-io.
	Name string `json:"name"`
	// Value is the limit that was asked for, in bytes or as a number.
	Value float64 `json:"value"`
	// By is what enforced it: "cgroup v2", "cgroup v1", "rlimit", "priority" or "nsrun".
	By string `json:"by"`
	// Hit says that the command reached it, as far as that is known. For fsize it is known only if the limit ended
	// the command itself, or a process whose end gave the command, a shell, its exit status; for pids by rlimit only
	// if there were so many processes for some time; and for both if the command failed and its error messages say
	// so. For nofile it is known only in that last way; for nice and idle-io it is not known.
	Hit bool `json:"hit"`
	// Killed says that the command was killed because of it.
	Killed bool `json:"killed"`
	// Peak is the most that was used, in the unit of Value. Zero: nobody counted.
	Peak float64 `json:"peak"`
	// Less says in what way it was enforced less strictly than asked for. Empty: it was enforced as asked.
	Less string `json:"less,omitempty"`
}

// String is a line about a limit that was hit: "killed: memory limit 512 MiB reached".
func (l Limit) String() string { return limits.HitText(limits.Name(l.Name), l.Value, l.Killed) }

// LimitError is a limit that cannot be enforced. Nothing was run. If nothing on this host can enforce it, errors.Is
// reports errors.ErrUnsupported.
type LimitError struct {
	Name string // that of the flag; empty: several
	Err  error
}

func (e *LimitError) Error() string { return e.Err.Error() }

func (e *LimitError) Unwrap() error { return e.Err }

// ParseSize reads a number of bytes: digits, or a number with K, M, G, T or P (powers of 1024), which may be followed
// by iB.
func ParseSize(text string) (int64, error) { return limits.ParseSize(text) }

// FormatSize is a size for people, such as "512 MiB".
func FormatSize(n int64) string { return limits.FormatSize(n) }

// Check finds mistakes.
func (l Limits) Check() error {
	all := l.all()
	return all.Check()
}

// all are the limits as package limits has them.
func (l Limits) all() limits.Limits { return limits.Limits(l) }
