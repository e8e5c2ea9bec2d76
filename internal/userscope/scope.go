//go:build linux

// Package userscope has systemd's manager of the user's services make a cgroup, where this user can make none: the
// processes of a login are in a cgroup of root's. It may import cgroups, reexec and sys, and does not know what the
// cgroup is for.
//
// The cgroup is that of a transient scope (systemd.scope(5)), which is delegated to nsrun. The manager ends a scope
// without processes, so one small process of ours, the holder, stays in a cgroup of its own below it. The holder ends
// with this process, and then the manager removes everything.
//
//	user@1000.service/app.slice/nsrun-1a2b.scope
//	                                 |- nsrun-3c4d    the holder
//	                                 `- nsrun-5e6f    a command: Place().Make(), and Attach
//
// The kernel lets nobody move a process out of root's cgroup but root, so a command starts outside, and the manager
// has it moved (AttachProcessesToUnit, see org.freedesktop.systemd1(5)) before it executes anything.
package userscope

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/nsrun/nsrun/internal/cgroups"
	"github.com/nsrun/nsrun/internal/reexec"
	"github.com/nsrun/nsrun/internal/sys"
)

// patience is how long the manager may take for each answer.
var patience = 5 * time.Second

const (
	systemd = "org.freedesktop.systemd1"
	manager = systemd + ".Manager"
)

// A Scope is a cgroup that the manager made. It can be used by several goroutines at once.
type Scope struct {
	conn   *dbus.Conn
	unit   string
	holder *reexec.Worker
	group  *cgroups.Group // the holder's
	place  *cgroups.Place
}

// Make makes a Scope. An error says why the manager makes none, or that there is no manager.
func Make() (_ *Scope, err error) {
	m, err := cgroups.FindManager()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	s := &Scope{unit: fmt.Sprintf("nsrun-%016x.scope", rand.Uint64())}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if err := s.connect(m); err != nil {
		return nil, fmt.Errorf("connect to the user's service manager: %w", err)
	}
	if s.holder, err = reexec.Hire(); err != nil {
		return nil, err
	}
	if err := s.start(m.Bus); err != nil {
		return nil, fmt.Errorf("have the user's service manager make a scope: %w", err)
	}
	if s.place, err = m.Unit(s.holder.Pid(), s.unit); err != nil {
		return nil, err
	}
	if s.group, err = s.place.Make(); err != nil {
		return nil, err
	}
	if err := s.group.Enter(s.holder.Pid()); err != nil {
		return nil, err
	}
	return s, nil
}

// connect begins to speak D-Bus on the manager's socket.
func (s *Scope) connect(m *cgroups.Manager) error {
	f := os.NewFile(uintptr(m.Sock), "service manager")
	m.Sock = sys.None // f has it
	sock, err := net.FileConn(f)
	_ = f.Close()
	if err != nil {
		return err
	}
	if s.conn, err = dbus.NewConn(sock); err != nil {
		_ = sock.Close()
		return err
	}
	if err := sock.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if err := s.conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Geteuid()))}); err != nil {
		return err
	}
	if m.Bus {
		if err := s.conn.Hello(); err != nil {
			return err
		}
	}
	return sock.SetDeadline(time.Time{})
}

type property struct {
	Name  string
	Value dbus.Variant
}

// start starts the scope with the holder, and waits until that is in it.
func (s *Scope) start(bus bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if bus {
		err := s.conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(manager), dbus.WithMatchMember("JobRemoved"))
		if err != nil {
			return err
		}
	}
	ended := make(chan *dbus.Signal, 64)
	s.conn.Signal(ended)
	defer s.conn.RemoveSignal(ended)
	var job dbus.ObjectPath
	err := s.call(ctx, "StartTransientUnit", s.unit, "fail", []property{
		{"Description", dbus.MakeVariant("Commands of nsrun, with limits")},
		{"PIDs", dbus.MakeVariant([]uint32{uint32(s.holder.Pid())})},
		{"Delegate", dbus.MakeVariant(true)},
		{"CollectMode", dbus.MakeVariant("inactive-or-failed")}, // nothing of it stays
		{"TasksMax", dbus.MakeVariant(uint64(math.MaxUint64))},  // the limits are those that were asked for
	}, []struct {
		Name       string
		Properties []property
	}{}).Store(&job)
	if err != nil {
		return err
	}
	for {
		select {
		case sig, ok := <-ended:
			if !ok {
				return dbus.ErrClosed
			}
			// JobRemoved(id, job, unit, result)
			if sig.Name == manager+".JobRemoved" && len(sig.Body) == 4 && sig.Body[1] == job {
				if result, _ := sig.Body[3].(string); result != "done" {
					return fmt.Errorf("its job is %s", result)
				}
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Scope) call(ctx context.Context, method string, args ...any) *dbus.Call {
	return s.conn.Object(systemd, "/org/freedesktop/systemd1").CallWithContext(ctx, manager+"."+method, 0, args...)
}

// Place is where cgroups for commands are made. It belongs to s.
func (s *Scope) Place() *cgroups.Place { return s.place }

// Gone reports whether the manager has ended the scope, as it does when the user's last login ends.
func (s *Scope) Gone() bool { return !s.group.Has(s.holder.Pid()) }

var errOutside = errors.New("the user's service manager did not move the command to its cgroup")

// Attach moves a process to a cgroup that Place made.
func (s *Scope) Attach(g *cgroups.Group, pid int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.call(ctx, "AttachProcessesToUnit", s.unit, "/"+g.Name, []uint32{uint32(pid)}).Err; err != nil {
		return fmt.Errorf("%w: %s/%s: %w", errOutside, s.unit, g.Name, err)
	}
	if !g.Has(pid) {
		return fmt.Errorf("%w: %s/%s", errOutside, s.unit, g.Name)
	}
	return nil
}

// Close ends the scope. No command may be in it any more.
func (s *Scope) Close() {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	if s.holder != nil {
		_ = s.holder.Dismiss()
	}
	if s.group != nil {
		s.group.Discard()
	}
	if s.place != nil {
		s.place.Close()
	}
}
