//go:build linux

package nsrun_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// sessionBus is a bus that can start programs with the names org.example.Chosen, org.example.Chosen.Below and
// org.example.Other. When one starts, it leaves a file of that name in the directory that sessionBus returns.
func sessionBus(t *testing.T) (ran string) {
	t.Helper()
	for _, name := range []string{"dbus-daemon", "dbus-send", "xdg-dbus-proxy"} {
		if _, err := exec.LookPath(name); err != nil {
			testenv.Skip(t, "dbus", err.Error())
		}
	}
	dir, services := testenv.Dir(t), t.TempDir()
	ran = t.TempDir()
	for _, name := range []string{"org.example.Chosen", "org.example.Chosen.Below", "org.example.Other"} {
		text := fmt.Sprintf("[D-BUS Service]\nName=%s\nExec=/bin/sh -c 'touch %s/%[1]s; exit 1'\n", name, ran)
		if err := os.WriteFile(filepath.Join(services, name+".service"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	conf := filepath.Join(services, "conf")
	text := `<busconfig><type>session</type><listen>unix:path=` + dir + `/bus</listen><servicedir>` + services + `</servicedir>
<policy context="default"><allow send_destination="*"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("dbus-daemon", "--nofork", "--print-address", "--config-file="+conf)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", strings.TrimSpace(address))
	return ran
}

// busCommand lists the names, and calls each of the programs.
const busCommand = `dbus-send --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListActivatableNames | grep -o 'org.example[A-Za-z.]*' | sort
for n in Chosen Chosen.Below Other; do dbus-send --print-reply --dest=org.example.$n / org.example.X.Y 2>&1 | grep -o 'AccessDenied\|exited\|ServiceUnknown' | head -n 1; done
dbus-send --print-reply --dest=org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus.UpdateActivationEnvironment dict:string:string:A,b >/dev/null 2>&1; echo $?`

// TestDBus: after a question, a command sees and calls only those programs on the session bus that are named. The
// control is the bus itself.
func TestDBus(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t), "p")
	ran := sessionBus(t)
	started := func() string {
		t.Helper()
		names, err := filepath.Glob(ran + "/*")
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range names {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			names[i] = strings.TrimPrefix(filepath.Base(name), "org.example.")
		}
		return strings.Join(names, " ")
	}
	const all = "org.example.Chosen\norg.example.Chosen.Below\norg.example.Other\n"
	out, err := exec.Command("sh", "-c", busCommand).Output()
	if got := started(); err != nil || string(out) != all+"exited\nexited\nexited\n0\n" || got != "Chosen Chosen.Below Other" {
		t.Fatalf("the control: %q, %v, started %s", out, err, got)
	}
	for _, c := range []struct {
		name, want, started string
		allow               []string
	}{
		{"one", "org.example.Chosen\nexited\nServiceUnknown\nServiceUnknown\n1\n", "Chosen", []string{"dbus:org.example.Chosen"}},
		{"below", "org.example.Chosen\norg.example.Chosen.Below\nexited\nexited\nServiceUnknown\n1\n", "Chosen Chosen.Below", []string{"dbus:org.example.Chosen.*", "dbus:org.example.None"}},
		{"strict", "org.example.Chosen\nexited\nServiceUnknown\nServiceUnknown\n1\n", "Chosen", []string{"dbus:org.example.Chosen"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			yes := &answers{answer: nsrun.Allow}
			config := nsrun.Config{Project: p, AllowUnix: c.allow, Approver: yes, After: nsrun.Discard}
			if c.name == "strict" {
				config.Preset = nsrun.StrictPreset
			}
			if got := output(t, runner(t, config), nsrun.Request{Command: busCommand}); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if got := started(); got != c.started {
				t.Errorf("started %q, want %q", got, c.started)
			}
			if len(yes.asked) != 1 || !yes.asked[0].OneTime || !strings.HasPrefix(yes.asked[0].Target, "dbus, and with it all that org.example.Chosen") {
				t.Errorf("asked %+v", yes.asked)
			}
		})
	}
	c := nsrun.Config{Project: p, AllowUnix: []string{"dbus:org.example.Chosen"}, Approver: &answers{answer: nsrun.Deny}}
	for _, who := range []nsrun.Approver{c.Approver, nil} {
		c.Approver = who
		res, err := runner(t, c).Run(t.Context(), nsrun.Request{Command: busCommand})
		if _, ok := errors.AsType[*nsrun.DeniedError](err); !ok || res.Started {
			t.Errorf("%v: %v, %v", who, err, res.Started)
		}
	}
	if got := started(); got != "" {
		t.Errorf("after no: started %s", got)
	}
}

func init() { insides["fill bus"] = func([]string) int { fmt.Println(fillBus() >> 20); return 0 } }

// fillBus begins two messages on connections to the session bus, and returns how many bytes of them were taken. Neither
// message ever is complete.
func fillBus() (taken int) {
	const size = 72 << 20
	for range 2 {
		c, err := net.Dial("unix", strings.TrimPrefix(os.Getenv("DBUS_SESSION_BUS_ADDRESS"), "unix:path="))
		if err != nil {
			return taken
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(testenv.Patience))
		fmt.Fprintf(c, "\x00AUTH EXTERNAL %x\r\n", strconv.Itoa(os.Getuid()))
		if answer, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasPrefix(answer, "OK ") {
			return -1
		}
		// The header of a method call, with the path, the member and the destination.
		header := "l\x01\x00\x01" + string(binary.LittleEndian.AppendUint32(nil, size+1)) + "\x01\x00\x00\x00"
		var fields string
		for _, f := range [...]string{"\x01\x01o\x00/a", "\x03\x01s\x00X", "\x06\x01s\x00org.freedesktop.DBus"} {
			fields += strings.Repeat("\x00", -len(fields)&7) + f[:4] + string(binary.LittleEndian.AppendUint32(nil, uint32(len(f)-4))) + f[4:] + "\x00"
		}
		header += string(binary.LittleEndian.AppendUint32(nil, uint32(len(fields)))) + fields
		_, err = io.WriteString(c, "BEGIN\r\n"+header+strings.Repeat("\x00", -len(header)&7))
		for piece, sent := make([]byte, 1<<20), 0; err == nil && sent < size; sent += len(piece) {
			var n int
			n, err = c.Write(piece)
			taken += n
		}
	}
	return taken
}

// TestDBusMemory: the memory of the proxy, which is outside of the sandbox and its limits, has a limit. The control is
// the program without one.
func TestDBusMemory(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t), "p")
	sessionBus(t)
	c := nsrun.Config{Project: p, AllowUnix: []string{"dbus:org.example.Chosen"}, Approver: yes{}, After: nsrun.Discard}
	got, err := strconv.Atoi(strings.TrimSpace(output(t, runner(t, shown(t, c)), insideRequest(t, "fill bus"))))
	if err != nil || got < 1 || got >= 128 {
		t.Errorf("the proxy took %d MiB, %v", got, err)
	}
	own := filepath.Join(p, "bus")
	cmd := exec.Command("xdg-dbus-proxy", os.Getenv("DBUS_SESSION_BUS_ADDRESS"), own, "--filter")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	testenv.Eventually(t, "a proxy that listens", func() bool {
		c, err := net.Dial("unix", own)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+own)
	if got := fillBus() >> 20; got != 144 {
		t.Errorf("the control took %d MiB", got)
	}
}

// TestDBusRefused: what is not available is reported before the command starts.
func TestDBusRefused(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	p := filepath.Join(place(t), "p")
	ran := sessionBus(t)
	run := func(name string) error {
		_, err := runner(t, nsrun.Config{Project: p, AllowUnix: []string{name}, Approver: yes{}}).Run(context.Background(), nsrun.Request{Command: "true"})
		return err
	}
	for _, name := range []string{"dbus", "dbus:", "dbus:*", "dbus:org", "dbus:org..a", "dbus:org.*", "dbus:.*", "dbus:org.example.A=b", "dbus::1.5", "dbus:org.*.a"} {
		if err := run(name); err == nil || !strings.Contains(err.Error(), "the name of a program on the bus") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for at, want := range map[string]string{
		"tcp:host=localhost,port=1":  "names no socket with a path",
		"unix:abstract=x":            "names no socket with a path",
		"unix:path=" + ran:           "not a socket",
		"unix:path=" + ran + "/none": "no such file",
		"unix:guid=1":                "names no socket with a path",
	} {
		t.Setenv("DBUS_SESSION_BUS_ADDRESS", at)
		if err := run("dbus:org.example.Chosen"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", at, err, want)
		}
	}
	t.Setenv("PATH", ran)
	if err := run("dbus:org.example.Chosen"); err == nil || !strings.Contains(err.Error(), "xdg-dbus-proxy is not installed") {
		t.Errorf("without the proxy: %v", err)
	}
}
