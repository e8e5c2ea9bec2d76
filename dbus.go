//go:build linux

package nsrun

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/service"
	"github.com/nsrun/nsrun/mounts"
)

// DBus stands in Config.AllowUnix, as "dbus:" and the name of a program, for the session bus of this program's user.
// Commands have a bus of their own through xdg-dbus-proxy, on which they see and call only programs of that name; ".*"
// after it stands for all names below it. It can be given several times. Such a program does for the command whatever
// it does for the caller: the Approver is asked before the command starts (ActionConnect).
const DBus = service.DBus

// busMemory is how much memory the proxy can have, in bytes. It keeps messages until they are complete, however many a
// command begins, and its memory does not count as the command's. It ends when it needs more.
const busMemory = 128 << 20

// busTime is how long the proxy may take until it is ready.
const busTime = 20 * time.Second

// openBus starts the proxy of the session bus.
func (x *Execution) openBus(run bool, suspect func(dir string) bool) error {
	names := x.allowedOf(service.DBus)
	if names == nil {
		return nil
	}
	s := &x.services
	target := host.ServicePoint("bus", run)
	s.env = append(s.env, "DBUS_SESSION_BUS_ADDRESS=unix:path="+target)
	if s.ctx == nil {
		s.mounts = append(s.mounts, mounts.ROBind(target, target))
		return nil
	}
	q := Question{Action: ActionConnect, Target: "dbus, and with it all that " + strings.Join(names, ", ") + " can do for you", Project: x.project, Command: x.request.text(), OneTime: true}
	if err := x.runner.ask(x.parent, q); err != nil {
		return err
	}
	if err := s.startBus(names, target, suspect); err != nil {
		return &Error{"allow unix socket", service.DBus, err}
	}
	return nil
}

// startBus starts it, and waits until it is ready. It ends with the context, and when the other end of its pipe is
// closed.
func (s *services) startBus(names []string, target string, suspect func(dir string) bool) error {
	program, _, err := host.Program("xdg-dbus-proxy", suspect)
	if err != nil {
		return err
	}
	path, err := busPath()
	if err != nil {
		return err
	}
	bus, err := host.HoldSocket(path, suspect)
	if err != nil {
		return err
	}
	defer bus.Close()
	name, err := host.NameSocket()
	if err != nil {
		return err
	}
	s.shown = append(s.shown, name.Remove)
	ready, end, err := os.Pipe()
	if err != nil {
		return err
	}
	s.end = append(s.end, func() { _ = ready.Close() })
	cmd := exec.CommandContext(s.ctx, program, "--fd=3", "unix:path=/proc/self/fd/4", name.Name, "--filter")
	for _, n := range names {
		cmd.Args = append(cmd.Args, "--talk="+n)
	}
	// The name is relative, because the directory's name can be longer than a socket address may be.
	cmd.Dir, cmd.ExtraFiles = name.Dir, []*os.File{end, bus.File()}
	err = cmd.Start()
	_ = end.Close()
	if err != nil {
		return err
	}
	s.running.Go(func() { _ = cmd.Wait() })
	for resource, most := range map[int]uint64{unix.RLIMIT_DATA: busMemory, unix.RLIMIT_CORE: 0} {
		if err := unix.Prlimit(cmd.Process.Pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
			return fmt.Errorf("limit xdg-dbus-proxy: %w", err)
		}
	}
	if err := ready.SetReadDeadline(time.Now().Add(busTime)); err != nil {
		return err
	}
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("xdg-dbus-proxy does not start: %w", err)
	}
	m, err := name.Mount(target)
	s.mounts = append(s.mounts, m)
	return err
}

// busPath is the path of the session bus's socket.
func busPath() (string, error) {
	at := os.Getenv("DBUS_SESSION_BUS_ADDRESS")
	if at == "" {
		return filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "bus"), nil
	}
	for address := range strings.SplitSeq(at, ";") {
		keys, ok := strings.CutPrefix(address, "unix:")
		for kv := range strings.SplitSeq(keys, ",") {
			if path, found := strings.CutPrefix(kv, "path="); ok && found {
				return url.PathUnescape(path)
			}
		}
	}
	return "", errors.New("DBUS_SESSION_BUS_ADDRESS names no socket with a path")
}
