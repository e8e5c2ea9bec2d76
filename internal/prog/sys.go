//go:build linux

package prog

// Arch is a processor architecture a Program can be laid out for. Numbers of system calls and a few open flags differ.
type Arch uint8

// The architectures nsrun runs on.
const (
	AMD64 Arch = iota
	ARM64
)

// Sys is a system call, or one of the steps the child does on its own.
type Sys uint8

// The system calls that Programs use. None that only one architecture has: the *at forms instead of the old ones.
const (
	SysClose Sys = iota
	SysCloseRange
	SysOpenat
	SysOpenat2
	SysOpenTree
	SysMoveMount
	SysMountSetattr
	SysFsopen
	SysFsconfig
	SysFsmount
	SysMount
	SysUmount2
	SysPivotRoot
	SysChroot
	SysChdir
	SysFchdir
	SysMkdirat
	SysMknodat
	SysLinkat
	SysSymlinkat
	SysReadlinkat
	SysFchmod
	SysStatx
	SysWrite
	SysRead
	SysDup3
	SysFcntl
	SysSocket
	SysIoctl
	SysPpoll
	SysPrctl
	SysCapset
	SysSetresuid
	SysSetresgid
	SysSetgroups
	SysSethostname
	SysSetsid
	SysUnshare
	SysUmask
	SysKeyctl
	SysPrlimit64
	SysSeccomp
	SysSigprocmask
	SysExecve
	SysSetns
	SysFaccessat2
	SysUnlinkat
	SysFchmodat2
	SysRenameat2
	SysSigaction
	SysBind
	SysListen
	SysSendmsg
	SysFgetxattr
	SysExitGroup
	SysMunmap
	SysLandlockCreate
	SysLandlockRestrict
	SysLandlockRule

	// The rest are done by the child itself; see the child's file.
	Install  // arrange the passed descriptors, close all others; the status pipe has so many behind it
	Receive  // read the next Program from a socket and go on with it; it has another descriptor too, if that is not 0
	Fork     // stay as PID 1; the rest is the command's
	Exec     // execve; a failure is remembered and the next operation tried
	Target   // where a mount goes, made if it is missing
	MakeDirs // a directory with its parents, made if they are missing
	Links    // hard links of one file, but where there is something of the name
	Branch   // skip if a word of the data is as given
	Jump     // skip always
	Fail     // report an error
	ExecFail // report the error remembered by Exec
	Clone    // go on in a new process, a child of the parent
	Store    // set a word of the data
	Hold     // PID 1 keeps this descriptor
	Mismatch // fail if a tree cannot be put onto a target
	Same     // report a text that is not what was expected
	Wipe     // clear memory
	Device   // fail if this is not a certain device
	Procfs   // fail if this is on no procfs
	SameMnt  // fail if two descriptors are of different mounts
	numSys
)

// pseudo is where the numbers of the child's own steps begin.
const pseudo = 0xffff0000

// Flags of Exec.
const (
	ExecExact    = 1 // what is in a directory that cannot be searched is missing
	ExecTextOnly = 2 // only what looks like a script is given to the shell
)

// Numbers of the child's own steps, for the child's file.
const (
	NrInstall  = pseudo + uint32(Install)
	NrReceive  = pseudo + uint32(Receive)
	NrFork     = pseudo + uint32(Fork)
	NrExec     = pseudo + uint32(Exec)
	NrTarget   = pseudo + uint32(Target)
	NrMakeDirs = pseudo + uint32(MakeDirs)
	NrLinks    = pseudo + uint32(Links)
	NrBranch   = pseudo + uint32(Branch)
	NrJump     = pseudo + uint32(Jump)
	NrFail     = pseudo + uint32(Fail)
	NrExecFail = pseudo + uint32(ExecFail)
	NrClone    = pseudo + uint32(Clone)
	NrStore    = pseudo + uint32(Store)
	NrHold     = pseudo + uint32(Hold)
	NrMismatch = pseudo + uint32(Mismatch)
	NrSame     = pseudo + uint32(Same)
	NrWipe     = pseudo + uint32(Wipe)
	NrDevice   = pseudo + uint32(Device)
	NrProcfs   = pseudo + uint32(Procfs)
	NrSameMnt  = pseudo + uint32(SameMnt)
)

type sysInfo struct {
	name string
	nr   [2]uint32 // AMD64, ARM64
	sig  string    // one letter per argument, see Program.Format
}

// Numbers: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h.
var sysTable = [numSys]sysInfo{
	SysClose:        {"close", [2]uint32{3, 57}, "f"},
	SysCloseRange:   {"close_range", [2]uint32{436, 436}, "ddd"},
	SysOpenat:       {"openat", [2]uint32{257, 56}, "fsom"},
	SysOpenat2:      {"openat2", [2]uint32{437, 437}, "fshd"},
	SysOpenTree:     {"open_tree", [2]uint32{428, 428}, "fsx"},
	SysMoveMount:    {"move_mount", [2]uint32{429, 429}, "fsfsx"},
	SysMountSetattr: {"mount_setattr", [2]uint32{442, 442}, "fsxad"},
	SysFsopen:       {"fsopen", [2]uint32{430, 430}, "sx"},
	SysFsconfig:     {"fsconfig", [2]uint32{431, 431}, "fessd"},
	SysFsmount:      {"fsmount", [2]uint32{432, 432}, "fxx"},
	SysMount:        {"mount", [2]uint32{165, 40}, "sssxs"},
	SysUmount2:      {"umount2", [2]uint32{166, 39}, "sx"},
	SysPivotRoot:    {"pivot_root", [2]uint32{155, 41}, "ss"},
	SysChroot:       {"chroot", [2]uint32{161, 51}, "s"},
	SysChdir:        {"chdir", [2]uint32{80, 49}, "s"},
	SysFchdir:       {"fchdir", [2]uint32{81, 50}, "f"},
	SysMkdirat:      {"mkdirat", [2]uint32{258, 34}, "fsm"},
	SysMknodat:      {"mknodat", [2]uint32{259, 33}, "fsmd"},
	SysLinkat:       {"linkat", [2]uint32{265, 37}, "fsfsx"},
	SysSymlinkat:    {"symlinkat", [2]uint32{266, 36}, "sfs"},
	SysReadlinkat:   {"readlinkat", [2]uint32{267, 78}, "fspd"},
	SysFchmod:       {"fchmod", [2]uint32{91, 52}, "fm"},
	SysStatx:        {"statx", [2]uint32{332, 291}, "fsxxp"},
	SysWrite:        {"write", [2]uint32{1, 64}, "fbd"},
	SysRead:         {"read", [2]uint32{0, 63}, "fpd"},
	SysDup3:         {"dup3", [2]uint32{292, 24}, "fdo"},
	SysFcntl:        {"fcntl", [2]uint32{72, 25}, "fed"},
	SysSocket:       {"socket", [2]uint32{41, 198}, "exd"},
	SysIoctl:        {"ioctl", [2]uint32{16, 29}, "fep"},
	SysPpoll:        {"ppoll", [2]uint32{271, 73}, "pdpp"},
	SysPrctl:        {"prctl", [2]uint32{157, 167}, "eed"},
	SysCapset:       {"capset", [2]uint32{126, 91}, "pk"},
	SysSetresuid:    {"setresuid", [2]uint32{117, 147}, "ddd"},
	SysSetresgid:    {"setresgid", [2]uint32{119, 149}, "ddd"},
	SysSetgroups:    {"setgroups", [2]uint32{116, 159}, "dp"},
	SysSethostname:  {"sethostname", [2]uint32{170, 161}, "bd"},
	SysSetsid:       {"setsid", [2]uint32{112, 157}, ""},
	SysUnshare:      {"unshare", [2]uint32{272, 97}, "x"},
	SysUmask:        {"umask", [2]uint32{95, 166}, "m"},
	SysKeyctl:       {"keyctl", [2]uint32{250, 219}, "es"},
	SysPrlimit64:    {"prlimit64", [2]uint32{302, 261}, "delp"},
	SysSeccomp:      {"seccomp", [2]uint32{317, 277}, "exn"},
	SysSigprocmask:  {"rt_sigprocmask", [2]uint32{14, 135}, "eqpd"},
	SysExecve:       {"execve", [2]uint32{59, 221}, "svE"},
	SysSetns:        {"setns", [2]uint32{308, 268}, "fx"},
	SysFaccessat2:   {"faccessat2", [2]uint32{439, 439}, "fsdx"},
	SysUnlinkat:     {"unlinkat", [2]uint32{263, 35}, "fsd"},
	SysFchmodat2:    {"fchmodat2", [2]uint32{452, 452}, "fsmx"},
	SysRenameat2:    {"renameat2", [2]uint32{316, 276}, "fsfsx"},
	SysSigaction:    {"rt_sigaction", [2]uint32{13, 134}, "dppd"},
	SysBind:         {"bind", [2]uint32{49, 200}, "fpd"},
	SysListen:       {"listen", [2]uint32{50, 201}, "fd"},
	SysSendmsg:      {"sendmsg", [2]uint32{46, 211}, "fpx"},
	SysFgetxattr:    {"fgetxattr", [2]uint32{193, 10}, "fspd"},
	SysExitGroup:    {"exit_group", [2]uint32{231, 94}, "d"},
	SysMunmap:       {"munmap", [2]uint32{11, 215}, "xd"},

	SysLandlockCreate:   {"landlock_create_ruleset", [2]uint32{444, 444}, "pdx"},
	SysLandlockRestrict: {"landlock_restrict_self", [2]uint32{446, 446}, "fx"},
	SysLandlockRule:     {"landlock_add_rule", [2]uint32{445, 445}, "fdrx"},

	Install:  {"install", [2]uint32{NrInstall, NrInstall}, "dd"},
	Receive:  {"receive", [2]uint32{NrReceive, NrReceive}, "df"},
	Fork:     {"fork", [2]uint32{NrFork, NrFork}, "xpddd"},
	Exec:     {"execve", [2]uint32{NrExec, NrExec}, "svEv"},
	Target:   {"target", [2]uint32{NrTarget, NrTarget}, "fsfm"},
	MakeDirs: {"make_dirs", [2]uint32{NrMakeDirs, NrMakeDirs}, "fsm"},
	Links:    {"links", [2]uint32{NrLinks, NrLinks}, "fsfs"},
	Branch:   {"branch", [2]uint32{NrBranch, NrBranch}, "pxx"},
	Jump:     {"jump", [2]uint32{NrJump, NrJump}, ""},
	Fail:     {"fail", [2]uint32{NrFail, NrFail}, "d"},
	ExecFail: {"fail", [2]uint32{NrExecFail, NrExecFail}, ""},
	Clone:    {"clone", [2]uint32{NrClone, NrClone}, "x"},
	Store:    {"store", [2]uint32{NrStore, NrStore}, "ps"},
	Hold:     {"hold", [2]uint32{NrHold, NrHold}, "f"},
	Mismatch: {"mismatch", [2]uint32{NrMismatch, NrMismatch}, "ff"},
	Same:     {"same", [2]uint32{NrSame, NrSame}, "spd"},
	Wipe:     {"wipe", [2]uint32{NrWipe, NrWipe}, "xd"},
	Device:   {"device", [2]uint32{NrDevice, NrDevice}, "fdd"},
	Procfs:   {"procfs", [2]uint32{NrProcfs, NrProcfs}, "f"},
	SameMnt:  {"same_mount", [2]uint32{NrSameMnt, NrSameMnt}, "ff"},
}

// OpenFlag is a flag of openat(2) whatever its number on the architecture.
type OpenFlag uint32

// The open flags that Programs use.
const (
	WriteOnly OpenFlag = 1 << iota
	ReadWrite
	Create
	Exclusive
	Truncate
	NoFollow
	Directory
	PathOnly
	CloseOnExec
	NonBlock
)

var openFlags = [...]struct {
	name string
	bits [2]uint32 // AMD64, ARM64
}{
	{"O_WRONLY", [2]uint32{0x1, 0x1}},
	{"O_RDWR", [2]uint32{0x2, 0x2}},
	{"O_CREAT", [2]uint32{0x40, 0x40}},
	{"O_EXCL", [2]uint32{0x80, 0x80}},
	{"O_TRUNC", [2]uint32{0x200, 0x200}},
	{"O_NOFOLLOW", [2]uint32{0x20000, 0x8000}},
	{"O_DIRECTORY", [2]uint32{0x10000, 0x4000}},
	{"O_PATH", [2]uint32{0x200000, 0x200000}},
	{"O_CLOEXEC", [2]uint32{0x80000, 0x80000}},
	{"O_NONBLOCK", [2]uint32{0x800, 0x800}},
}

func (f OpenFlag) bits(a Arch) (v uint64) {
	for i := range openFlags {
		if f&(1<<i) != 0 {
			v |= uint64(openFlags[i].bits[a])
		}
	}
	return v
}
