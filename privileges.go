//go:build linux

package nsrun

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/attempts"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/sys"
)

// A privilegedCall is a system call that takes privileges, and that messages of programs tell of.
type privilegedCall struct {
	name  string
	needs uint64   // outside a sandbox, see sys.Held
	owner bool     // root's command can do it in a session, among its owners and other users
	by    bool     // the seccomp filter refuses it, too
	words []string // one of them is in the message, in lower case
}

// networkChange stands for calls that change network devices, addresses, routes and filters.
const networkChange = "sendmsg"

// setIDWords are in messages of programs that expect privileges from their set-user-id bit, separated by "|".
const setIDWords = "no new privileges|authentication failure|setuid|not permitted|permission denied"

// privilegedCalls are in the order in which they are looked for: a message about an owner may name a file.
var privilegedCalls = [...]privilegedCall{
	{"chown", 1<<unix.CAP_CHOWN | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID, true, false, []string{
		"ownership", "chown", "change owner", "set groups", "setgroups", "setgid", "setuid", "set uid", "set gid", "seteuid", "setegid", "setresuid", "setresgid"}},
	{"chroot", 1 << unix.CAP_SYS_CHROOT, true, true, []string{"change root directory", "chroot"}},
	{"clock_settime", 1<<unix.CAP_SYS_TIME | sys.Initial, false, true, []string{"set date", "clock_settime", "settimeofday"}},
	{"adjtimex", 1<<unix.CAP_SYS_TIME | sys.Initial, false, false, []string{"adjtime"}},
	{"sethostname", 1 << unix.CAP_SYS_ADMIN, false, false, []string{"change the host name", "sethostname", "set hostname", "set host name"}},
	{"mknod", 1<<unix.CAP_MKNOD | sys.Initial, false, false, []string{"mknod: "}},
	{"syslog", 1<<unix.CAP_SYSLOG | sys.Initial, false, true, []string{"kernel buffer", "syslog("}},
	{"swapon", 1<<unix.CAP_SYS_ADMIN | sys.Initial, false, true, []string{"swapon: ", "swapoff: "}},
	{"init_module", 1<<unix.CAP_SYS_MODULE | sys.Initial, false, true, []string{"insert module", "insmod: ", "modprobe: ", "rmmod: ", "init_module", "delete_module"}},
	{"reboot", 1<<unix.CAP_SYS_BOOT | sys.Initial, false, true, []string{"reboot: ", "kexec_load", "kexec_file_load"}},
	{"quotactl", 1<<unix.CAP_SYS_ADMIN | sys.Initial, false, true, []string{"quotactl", "quotaon: "}},
	{"setpriority", 1<<unix.CAP_SYS_NICE | sys.Initial, false, false, []string{"set priority", "setpriority", "set niceness"}},
	{"sched_setscheduler", 1<<unix.CAP_SYS_NICE | sys.Initial, false, false, []string{"'s policy", "sched_setscheduler", "sched_setattr"}},
	{"ioprio_set", 1<<unix.CAP_SYS_NICE | sys.Initial, false, false, []string{"ioprio_set"}},
	{"mlock", 1<<unix.CAP_IPC_LOCK | sys.Initial, false, false, []string{"mlock"}},
	{"setrlimit", 1<<unix.CAP_SYS_RESOURCE | sys.Initial, false, false, []string{"resource limit", "setrlimit", "cannot modify limit", "error setting limit"}},
	{networkChange, 1 << unix.CAP_NET_ADMIN, false, false, []string{"netlink", "siocsif", "siocaddrt", "siocdelrt", "rule set generation"}},
	{"perf_event_open", 1<<unix.CAP_PERFMON | sys.Initial, false, true, []string{"perf_event_open", "to enable task-clock", "to enable cycles"}},
	{"socket", 1 << unix.CAP_NET_RAW, false, false, []string{"raw socket", "socktype: sock_raw", "socket: operation"}},
	{"mount", 1 << unix.CAP_SYS_ADMIN, false, true, []string{"mount: ", "mount("}},
}

// refusedTexts are the texts of messages that a lack of privileges can cause.
var refusedTexts = []string{"not permitted", "permission denied", "no permission", "must be root", "superuser", "eperm", "eacces"}

// privileges looks for the message of a program that was refused a privileged call.
func (t *refusalTable) privileges(lower []byte) {
	switch {
	case containsAny(lower, `"no new privileges" flag is set`):
		t.add(refusedSetID(t.speaker()))
	case t.rules && bytes.HasPrefix(lower, []byte("ping: ")) && containsAny(lower, "cap_net_raw", "operation not permitted"):
		if r := refusedICMP(); t.mayPing() {
			t.add(r)
			return
		}
	}
	if !t.open && !t.rules && t.joins(lower) && joinsOn(attempts.Device{}) {
		t.add(refusedGroup(""))
		return
	}
	if !t.open && containsAny(lower, "assign requested address", "eaddrnotavail", "address not available") {
		for _, word := range bytes.FieldsFunc(lower, func(r rune) bool { return bytes.ContainsRune([]byte(" \t\n'\"(),;[]"), r) }) {
			text := string(bytes.TrimRight(word, ":."))
			if name, _, err := net.SplitHostPort(text); err == nil {
				text = name
			}
			if hasAddress(net.ParseIP(text)) {
				t.add(refusedAddress(text))
				return
			}
		}
	}
	if t.landlock || !containsAny(lower, refusedTexts...) {
		return
	}
	if containsAny(lower, "not permitted", "eperm") && t.setsID(lower) {
		t.add(refusedSyscall("chmod"))
		return
	}
	for i := range privilegedCalls {
		c := &privilegedCalls[i]
		if c.needs&^t.held != 0 || c.owner && (t.box.OwnIDs || t.box.Owners || !bytes.Contains(lower, []byte("operation not permitted"))) || !containsAny(lower, c.words...) {
			continue
		}
		if c.by {
			if !t.box.UserNamespaces || !slices.Contains(forNamespaces, c.name) {
				t.add(refusedSyscall(c.name))
			}
		} else {
			t.add(refusedPrivilege(c.name, c.owner))
		}
		return
	}
}

// idBits are modes with the set-user-id bit, as chmod(1) and programs have them.
var idBits = lazyPattern(`(^|[ ,'"=])[ua]*[+=][rwxXt]*s|\b(0o?)?[4-7][0-7]{3}\b|S_ISUID`)

// setsID reports whether the command line has a mode with such a bit, the message that is looked at, or the command
// line, is about modes, and the file is this user's, if it names one that the host has.
func (t *refusalTable) setsID(lower []byte) bool {
	line := strings.Join(t.args, " ")
	if !idBits().MatchString(line) || !containsAny(lower, "permissions", "chmod") && !strings.Contains(line, "chmod") {
		return false
	}
	for _, name := range wordsIn(string(t.now)) {
		name = t.inDir(name)
		var st unix.Stat_t
		if t.looked++; t.looked < mostLooks && name != t.dir && unix.Lstat(name, &st) == nil {
			return os.Geteuid() == 0 || int(st.Uid) == os.Geteuid()
		}
	}
	return true
}

// speaker is the program with privileges whose message is looked at, which begins with its name. Empty: unknown.
func (t *refusalTable) speaker() string {
	name, _, _ := strings.Cut(string(t.now), ":")
	path, err := exec.LookPath(name)
	if err != nil || !host.IsPrivileged(name) {
		return ""
	}
	return path
}

// mayPing reports whether ping(8) would work outside the sandbox.
func (t *refusalTable) mayPing() bool {
	return host.Pings() || t.held&(1<<unix.CAP_NET_RAW) != 0 || host.IsPrivileged("ping")
}

// refusedPrivilege is a system call of root's command that takes root's privileges; owner says that it gives a file
// away, or makes the command another user.
func refusedPrivilege(name string, owner bool) Refusal {
	r := Refusal{Kind: RefusedSyscall, Op: string(RefusedSyscall), Target: name, Rule: "privileges", Count: 1, Why: "root has no privileges in the sandbox"}
	if owner {
		r.Why, r.Flag = r.Why+", not even for owners and other users", "--own-ids"
	} else {
		r.Why += ", and no flag gives them"
	}
	return r
}

// refusedSetID is the execution of a program whose bits or capabilities give it privileges outside a sandbox.
func refusedSetID(program string) Refusal {
	return Refusal{Kind: RefusedExec, Op: string(RefusedExec), Target: program, Rule: "privileges", Count: 1,
		Why: "programs such as su and sudo get no privileges in the sandbox, and no flag gives them"}
}

// refusedICMP is a socket for ICMP, as ping(8) makes one.
func refusedICMP() Refusal {
	r := Refusal{Kind: RefusedSyscall, Op: string(RefusedSyscall), Target: "socket", Rule: "icmp", Count: 1, Why: "ping uses ICMP, and only the host's network has it"}
	if host.Pings() {
		r.Flag = "--net host"
	} else {
		r.Why += "; there it takes privileges, which no flag gives: see net.ipv4.ping_group_range"
	}
	return r
}

// refusedAddress is a server at an address of the host's network devices, which the sandbox lacks.
func refusedAddress(address string) Refusal {
	return Refusal{Kind: RefusedServe, Op: "bind", Target: address, Rule: addressRule, Count: 1, Flag: "--net host",
		Why: "the sandbox has network devices of its own, without this address of the host: bind to 0.0.0.0, :: or 127.0.0.1"}
}

// refusedGroup is the joining of a multicast group without a network. Empty: an unknown one.
func refusedGroup(group string) Refusal {
	return Refusal{Kind: RefusedServe, Op: "join", Target: group, Rule: addressRule, Count: 1, Flag: "--net host",
		Why: "the sandbox has no network device for multicast"}
}

// joins reports whether a message is about joining a multicast group: it says so, or the line before it, or the command
// line. Python's messages have only the text of the error.
func (t *refusalTable) joins(lower []byte) bool {
	if !containsAny(lower, "no such device", "enodev") || containsAny(lower, "no such device or address") {
		return false
	}
	about := []string{"membership", "multicast", "join_group"}
	return containsAny(lower, about...) || containsAny(t.last, about...) || containsAny([]byte(strings.Join(t.args, " ")), about...)
}

// joinsOn reports whether the host has a device, other than loopback, on which a process could join a multicast group.
func joinsOn(d attempts.Device) bool {
	if d.Address.IsValid() {
		return hasAddress(d.Address.AsSlice())
	}
	list, _ := net.Interfaces()
	return slices.ContainsFunc(list, func(i net.Interface) bool {
		const joins = net.FlagUp | net.FlagMulticast
		return i.Flags&(joins|net.FlagLoopback) == joins && (d.Index == 0 || d.Index == i.Index)
	})
}

// hasAddress reports whether it is an address of the host's network devices that sandboxes do not have.
func hasAddress(ip net.IP) bool {
	if ip == nil || ip.IsLoopback() || ip.IsUnspecified() {
		return false
	}
	list, _ := net.InterfaceAddrs()
	return slices.ContainsFunc(list, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
}

// forNamespaces are the calls that Config.UserNamespaces allows.
var forNamespaces = []string{
	"clone", "unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr", "move_mount", "fsopen", "fsconfig", "fsmount",
	"fspick", "mount_setattr",
}

// refusedSyscall is a system call that the seccomp filter refuses.
func refusedSyscall(name string) Refusal {
	r := Refusal{Kind: RefusedSyscall, Op: string(RefusedSyscall), Target: name, Rule: "seccomp", Why: "commands in a sandbox may not do this, and no flag allows it", Count: 1}
	if slices.Contains(forNamespaces, name) {
		r.Why, r.Flag = "commands in a sandbox may not make namespaces", "--allow-userns"
		if os.Geteuid() == 0 {
			r.Why, r.Flag = "root's commands have no privileges, and may not make namespaces: run nsrun as an ordinary user, with --allow-userns", ""
		}
	}
	return r
}
