//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
)

// denials runs a shell's command, and returns its status and the lines about what it was denied.
func denials(t *testing.T, bin, dir, command string, flags ...string) (status int, denied string) {
	t.Helper()
	args := append([]string{"run", "--discard"}, flags...)
	c := exec.Command("/", append(args, "-c", command)...)
	c.Dir = filepath.Join(dir, "p")
	c.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + filepath.Join(dir, "home"), "LANG=C.UTF-8"}
	r := runs(t, bin, "nsrun", c)
	for line := range strings.Lines(r.out) {
		if _, rest, ok := strings.Cut(line, "nsrun: denied: "); ok {
			denied += rest
		}
	}
	return r.status, denied
}

// call makes a system call of the C library in Python, and fails with a message if that fails.
func call(name, args string) string {
	return `python3 -c 'import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.` + name + `(` + args + `) < 0: sys.exit("` + name + `: " + os.strerror(ctypes.get_errno()))'`
}

// TestPrivileges: what root may do outside a sandbox and not in one is named, with --why and by its message. For a
// user, who may do it nowhere, nothing is named.
func TestPrivileges(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := refusing(t)
	const none, filtered, namespaces = "root has no privileges in the sandbox, and no flag gives them", "commands in a sandbox may not do this, and no flag allows it", "run nsrun as an ordinary user, with --allow-userns"
	for i, tt := range []struct {
		command, name, why string
		needs              uint64 // outside a sandbox
		silent             bool   // its message says too little, so that --why is needed
	}{
		{"hostname other", "sethostname", none, 1 << unix.CAP_SYS_ADMIN, false},
		{call("sethostname", `b"other", 5`), "sethostname", none, 1 << unix.CAP_SYS_ADMIN, false},
		{"date -s 2020-01-01", "clock_settime", filtered, 1<<unix.CAP_SYS_TIME | sys.Initial, false},
		{call("adjtimex", `bytes([2] + [0] * 207)`), "adjtime", none, 1<<unix.CAP_SYS_TIME | sys.Initial, false},
		{"ip link set lo mtu 1400", "sendmsg", none, 1 << unix.CAP_NET_ADMIN, false},
		{"ip addr add 127.3.3.3/32 dev lo", "sendmsg", none, 1 << unix.CAP_NET_ADMIN, false},
		{"ip route add 203.0.113.9/32 dev lo", "sendmsg", none, 1 << unix.CAP_NET_ADMIN, false},
		{"mkdir m; mount -t tmpfs none m", "mount", namespaces, 1 << unix.CAP_SYS_ADMIN, false},
		{"chroot / true", "chroot", namespaces, 1 << unix.CAP_SYS_CHROOT, false},
		{"mknod null c 1 3", "mknod", none, 1<<unix.CAP_MKNOD | sys.Initial, false},
		{"swapoff /dev/null", "swapo", filtered, 1<<unix.CAP_SYS_ADMIN | sys.Initial, false},
		{call("delete_module", `b"none", 0`), "_module", filtered, 1<<unix.CAP_SYS_MODULE | sys.Initial, false},
		{call("quotactl", `0x80000100, b"/dev/none", 0, 0`), "quotactl", filtered, 1<<unix.CAP_SYS_ADMIN | sys.Initial, false},
		{call("setpriority", `0, 0, -5`), "setpriority", none, 1<<unix.CAP_SYS_NICE | sys.Initial, false},
		{"renice -n -5 -p $$", "setpriority", none, 1<<unix.CAP_SYS_NICE | sys.Initial, false},
		{"chrt -f 1 true", "sched_set", none, 1<<unix.CAP_SYS_NICE | sys.Initial, false},
		{"ionice -c 1 true", "ioprio_set", none, 1<<unix.CAP_SYS_NICE | sys.Initial, false},
		{"python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 17)'", "socket", none, 1 << unix.CAP_NET_RAW, true},
		{"python3 -c 'import socket; socket.socket(socket.AF_INET6, socket.SOCK_RAW, 6)'", "socket", none, 1 << unix.CAP_NET_RAW, true},
		{"python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)'", "socket", filtered, 1 << unix.CAP_NET_RAW, true},
		{"python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)'", "socket", "ping uses ICMP", 1 << unix.CAP_NET_RAW, true},
		// With these, root fails outside, too.
		{"ip link show none0", "", "", 0, false}, {"swapon /dev/zero", "", "", 0, false}, {call("adjtimex", "0"), "", "", 0, false},
		{"mknod p/none p", "", "", 0, false}, {call("mlock", "0x1000, 4096"), "", "", 0, false}, {call("sched_setscheduler", "0, 77, bytes(4)"), "", "", 0, false},
		{call("setrlimit", "7, bytes([255] * 8 + [0] * 8)"), "", "", 0, false}, {"renice -n 1 -p 99999", "", "", 0, false},
	} {
		if program, _, _ := strings.Cut(strings.TrimPrefix(tt.command, "mkdir m; "), " "); program != "" {
			if _, err := exec.LookPath(program); err != nil {
				t.Logf("%s is not installed", program)
				continue
			}
		}
		for j, flags := range [][]string{nil, {"--why"}} {
			if !testenv.Turn(i + j) {
				continue
			}
			if flags != nil && !features.Has(features.SeccompNotification) || flags == nil && !features.Has(features.KillableCalls) {
				continue
			}
			if tt.name == "chroot" { // root's command may, unless something is written in place
				testenv.Tree(t, dir, "written/")
				flags = append([]string{"--rw", filepath.Join(dir, "written")}, flags...)
			}
			status, denied := denials(t, bin, dir, tt.command, flags...)
			named := tt.name != "" && tt.needs&^sys.Held() == 0 && (slices.Contains(flags, "--why") || !tt.silent)
			if ok := denied == ""; status == 0 || named == ok || named && (!strings.Contains(denied, tt.name) || !strings.Contains(denied, tt.why) || strings.Count(denied, "\n") != 1) {
				t.Errorf("%s, %q: status %d, named %t, %q", tt.command, flags, status, named, denied)
			}
		}
	}
}

// TestSetID: su and sudo have no effect in a sandbox, which a user is told.
func TestSetID(t *testing.T) {
	testenv.Leaks(t, reap)
	testenv.NeedUser(t) // root needs no such program
	bin, dir := refusing(t)
	for _, command := range []string{"su root -c true", "sudo -n true"} {
		if program, _, _ := strings.Cut(command, " "); !host.IsPrivileged(program) {
			t.Logf("%s is not installed", program)
			continue
		}
		if status, denied := denials(t, bin, dir, command+" </dev/null", "--why"); status == 0 || !strings.HasPrefix(denied, "execution of /") || !strings.Contains(denied, "get no privileges") {
			t.Errorf("%s: status %d, %q", command, status, denied)
		}
	}
	if host.IsPrivileged("sudo") {
		if status, denied := denials(t, bin, dir, "sudo -n true </dev/null"); status == 0 || !strings.HasPrefix(denied, "execution of /") {
			t.Errorf("without --why: status %d, %q", status, denied)
		}
	}
	if status, denied := denials(t, bin, dir, `python3 -c 'import sys; sys.exit("sudo: The \"no new privileges\" flag is set, which prevents sudo from running as root.")'`); status != 1 || !strings.Contains(denied, "get no privileges") {
		t.Errorf("status %d, %q", status, denied)
	}
}

// TestHostAddress: a server at an address of the host's network devices is named, and one at another address, which the
// host lacks too, is not.
func TestHostAddress(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := refusing(t)
	own := ""
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			own = n.IP.String()
		}
	}
	if own == "" {
		testenv.Skip(t, "network", "the host has no address but those of loopback")
	}
	serve := func(address string) string {
		return fmt.Sprintf(`python3 -c 'import socket, sys
try: socket.create_server(("%s", 4455))
except OSError as e: sys.exit("%s: " + e.strerror)'`, address, address)
	}
	for _, flags := range [][]string{nil, {"--why"}, {"--why", "--net-by", "broker", "--allow-net", "192.0.2.99"}} {
		if len(flags) > 0 && !features.Has(features.SeccompNotification) {
			continue
		}
		status, denied := denials(t, bin, dir, serve(own), flags...)
		if status == 0 || !strings.HasPrefix(denied, "server at "+own+": ") || !strings.HasSuffix(denied, "(try: --net host)\n") {
			t.Errorf("%q: status %d, %q", flags, status, denied)
		}
		if status, denied := denials(t, bin, dir, serve("198.51.100.77"), flags...); status == 0 || denied != "" {
			t.Errorf("%q, an address that the host lacks: status %d, %q", flags, status, denied)
		}
	}
}

// TestPingByRules: under rules that the broker enforces, ping(8) is told that it cannot work if it would work outside.
func TestPingByRules(t *testing.T) {
	testenv.Leaks(t, reap)
	bin, dir := refusing(t)
	if !host.IsPrivileged("ping") && !host.Pings() && sys.Held()&(1<<unix.CAP_NET_RAW) == 0 {
		testenv.Skip(t, "ping", "not installed, or without privileges")
	}
	if _, err := exec.LookPath("ping"); err != nil {
		testenv.Skip(t, "ping", "not installed")
	}
	for _, flags := range [][]string{nil, {"--why"}} {
		if !features.Has(features.SeccompNotification) {
			continue
		}
		flags = append(flags, "--net-by", "broker", "--allow-net", "192.0.2.99")
		if status, denied := denials(t, bin, dir, "ping -c1 -W1 192.0.2.9", flags...); host.Pings() != (status == 1) && !strings.Contains(denied, "ping uses ICMP") {
			t.Errorf("%q: status %d, %q", flags, status, denied)
		}
	}
}
