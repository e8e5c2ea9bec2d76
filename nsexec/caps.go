//go:build linux

package nsexec

import (
	"errors"
	"math/bits"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Capabilities is a set of capabilities, see capabilities(7); bit n is the
// capability with number n. The zero value is the empty set.
type Capabilities uint64

// ErrCapability says that there is no capability of that name.
var ErrCapability = errors.New("unknown capability")

// maxCaps is how many capabilities a kernel can have; in 2024 there were 41.
const maxCaps = 64

// capNames are the names without "cap_", by number, linux/capability.h. (A test compares them with package
// gocapability's, which is not used here itself: it reads a file of /proc when it is initialised, at every start.)
var capNames = [...]string{
	"chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap",
	"linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner",
	"sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct", "sys_admin", "sys_boot", "sys_nice",
	"sys_resource", "sys_time", "sys_tty_config", "mknod", "lease", "audit_write", "audit_control", "setfcap",
	"mac_override", "mac_admin", "syslog", "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf",
	"checkpoint_restore",
}

// admin reports whether the command may have CAP_SYS_ADMIN in the user namespace that the mounts belong to.
func (c *Cmd) admin() bool {
	return !c.nests() && (c.opt.KeepCapabilities || c.Capabilities&(1<<unix.CAP_SYS_ADMIN) != 0)
}

// AllCapabilities returns the capabilities that this kernel knows. If a seccomp filter refuses the question, they are
// those that have a name: a set with fewer would take from a command what it was given, and nobody would notice.
func AllCapabilities() (set Capabilities) {
	for n := range maxCaps {
		_, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(n), 0, 0, 0)
		if err != nil && err != unix.EINVAL {
			return 1<<len(capNames) - 1
		}
		if err != nil {
			break
		}
		set |= 1 << n
	}
	return set
}

// ParseCapabilities parses names with or without "CAP_", in any case, separated by commas, or "all".
func ParseCapabilities(s string) (set Capabilities, err error) {
	for name := range strings.SplitSeq(s, ",") {
		name = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(name)), "cap_")
		if name == "all" {
			set |= AllCapabilities()
			continue
		}
		found := false
		for n, known := range capNames {
			if known == name {
				set |= 1 << n
				found = true
			}
		}
		if !found {
			return 0, &Error{Op: "capability", Path: name, Err: ErrCapability}
		}
	}
	return set, nil
}

// String is the set as names, in the order of their numbers.
func (c Capabilities) String() string {
	var names []string
	for v := uint64(c); v != 0; v &= v - 1 {
		n := bits.TrailingZeros64(v)
		if n < len(capNames) {
			names = append(names, "cap_"+capNames[n])
		} else {
			names = append(names, strconv.Itoa(n))
		}
	}
	return strings.Join(names, ",")
}
