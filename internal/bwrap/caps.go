package bwrap

// capNames are the capabilities by number, without "cap_".
var capNames = [...]string{
	"chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill",
	"setgid", "setuid", "setpcap", "linux_immutable", "net_bind_service",
	"net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner",
	"sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct",
	"sys_admin", "sys_boot", "sys_nice", "sys_resource", "sys_time",
	"sys_tty_config", "mknod", "lease", "audit_write", "audit_control",
	"setfcap", "mac_override", "mac_admin", "syslog", "wake_alarm",
	"block_suspend", "audit_read", "perfmon", "bpf", "checkpoint_restore",
}

// allCaps is what ALL adds: every bit, known or not.
const allCaps = ^uint64(0)

// parseCap reads the name of a capability, or ALL, and returns the bits. Names are taken as libcap takes them: in any
// case, or as a number; what follows the name or the number is ignored.
func (p *parser) parseCap(s string) (uint64, error) {
	if equalFold(s, "all") {
		return allCaps, nil
	}
	if s != "" && '0' <= s[0] && s[0] <= '9' {
		n, _, _, end := strtoul(s, 0)
		if len(s) > 1 && s[1]|0x20 == 'b' && end > 1 {
			n = 0 // libcap knows no binary numbers: the 0 is all
		}
		if n < 64 {
			return 1 << n, nil
		}
		return 0, p.fail("unknown cap: ", s)
	}
	end := 0
	for end < len(s) && (s[end] == '_' || 'a' <= s[end]|0x20 && s[end]|0x20 <= 'z') {
		end++
	}
	if end > 4 && equalFold(s[:4], "cap_") {
		for n, name := range capNames {
			if equalFold(s[4:end], name) {
				return 1 << n, nil
			}
		}
	}
	return 0, p.fail("unknown cap: ", s)
}

// equalFold compares with a lower-case ASCII word.
func equalFold(s, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// CapNames returns what --cap-add takes: ALL, and the capabilities by number.
func CapNames() []string {
	names := []string{"ALL"}
	for _, n := range capNames {
		b := []byte("CAP_" + n)
		for i, c := range b {
			if 'a' <= c && c <= 'z' {
				b[i] = c - 'a' + 'A'
			}
		}
		names = append(names, string(b))
	}
	return names
}
