//go:build linux

package nsrun

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/service"
	"github.com/nsrun/nsrun/mounts"
)

// Docker, X11 and Wayland stand in Config.AllowUnix for sockets of this host whose paths vary: those of the Docker
// daemon (DOCKER_HOST), the X server (DISPLAY) and the Wayland compositor (WAYLAND_DISPLAY). Commands have the socket
// at another path, and a variable that names it. Access to Docker is access to the whole host, and access to an X
// server is reading and typing in all of its windows: for these two the Approver is asked before the command starts
// (ActionConnect).
const (
	Docker  = service.Docker
	X11     = service.X11
	Wayland = service.Wayland
)

// openHostSockets shows the sockets of the services that have no proxy.
func (x *Execution) openHostSockets(run bool, suspect func(dir string) bool) error {
	done := map[string]bool{}
	for _, text := range x.runner.config.AllowUnix {
		v, ok, err := service.Parse(text)
		if !ok || v.Name == service.SSHAgent || v.Name == service.GPGAgent || v.Name == service.DBus || done[v.Name] {
			continue
		}
		done[v.Name] = true
		if err == nil {
			err = x.openHostSocket(v.Name, run, suspect)
		}
		if err != nil {
			if denied, ok := errors.AsType[*DeniedError](err); ok {
				return denied
			}
			return &Error{"allow unix socket", text, err}
		}
	}
	return nil
}

// hostSocket is the socket of a service on this host, and the variable that names it for the command.
type hostSocket struct {
	path, point string
	env         func(target string) []string
	risk        string // what it gives away beyond itself; empty: nothing
}

func (x *Execution) openHostSocket(name string, run bool, suspect func(dir string) bool) error {
	s := &x.services
	found, err := findHostSocket(name)
	if err != nil {
		return err
	}
	if found.risk != "" && !x.explain {
		q := Question{Action: ActionConnect, Target: name + ", and with it " + found.risk, Project: x.project, Command: x.request.text(), OneTime: true}
		if err := x.runner.ask(x.parent, q); err != nil {
			return err
		}
	}
	m, err := host.UnixSocket(found.path, suspect)
	if err != nil {
		return err
	}
	if found.point != "" {
		m.Target = host.ServicePoint(found.point, run)
	}
	s.mounts = append(s.mounts, m)
	s.env = append(s.env, found.env(m.Target)...)
	if name != service.X11 {
		return nil
	}
	at := host.ServicePoint("Xauthority", run)
	cookie, err := xCookie(strings.TrimPrefix(filepath.Base(found.path), "X"), suspect)
	if cookie == nil || err != nil {
		return err
	}
	s.mounts = append(s.mounts, mounts.Data(at, cookie).RO().WithPerm(0o600))
	s.env = append(s.env, "XAUTHORITY="+at)
	return nil
}

// xCookie returns the entries of the caller's Xauthority file that clients of a display on this host use. The file
// itself may be hidden. Nil: there is none. The other entries are those of other displays: of other hosts, and of the
// computer from which the user came here (ssh -X).
func xCookie(number string, suspect func(dir string) bool) ([]byte, error) {
	name := os.Getenv("XAUTHORITY")
	if name == "" {
		name = filepath.Join(host.Home(), ".Xauthority")
	}
	b, err := host.ReadTrusted(name, 64<<10, suspect)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	hostname, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	return xEntries(b, hostname, number), nil
}

// xEntries returns those of the entries of an Xauthority file (Xsecurity(7)) that are for a display of a host, by its
// unix socket. Each is a family and four texts, each with its length: the address, the number of the display, and the
// name and data of the cookie. Without a number it is for all displays. An entry that is not whole ends the file, as it
// does for clients.
func xEntries(b []byte, hostname, number string) []byte {
	const local, wild = 256, 65535 // families; any address is meant with the second one
	kept := []byte{}
	for {
		rest := b
		next := func(n int) []byte {
			if n > len(rest) {
				rest = nil
				return nil
			}
			taken := rest[:n]
			rest = rest[n:]
			return taken
		}
		word := func() int {
			if taken := next(2); taken != nil {
				return int(binary.BigEndian.Uint16(taken))
			}
			return 0
		}
		family := word()
		var texts [4]string
		for i := range texts {
			texts[i] = string(next(word()))
		}
		if rest == nil {
			return kept
		}
		entry := b[:len(b)-len(rest)]
		if (family == wild || family == local && texts[0] == hostname) && (texts[1] == "" || texts[1] == number) {
			kept = append(kept, entry...)
		}
		b = rest
	}
}

// findHostSocket finds a service by this program's variables.
func findHostSocket(name string) (hostSocket, error) {
	switch name {
	case service.Docker:
		h := hostSocket{path: "/run/docker.sock", point: "docker.sock", risk: "this whole host (it starts containers as root)"}
		if at := os.Getenv("DOCKER_HOST"); at != "" {
			path, ok := strings.CutPrefix(at, "unix://")
			if !ok {
				return h, errors.New("DOCKER_HOST is no unix socket")
			}
			h.path = path
		}
		h.env = func(target string) []string { return []string{"DOCKER_HOST=unix://" + target} }
		return h, nil
	case service.X11:
		display := os.Getenv("DISPLAY")
		number, _, _ := strings.Cut(strings.TrimPrefix(display, "unix"), ".")
		number, ok := strings.CutPrefix(number, ":")
		if !ok || number == "" || strings.Trim(number, "0123456789") != "" {
			return hostSocket{}, errors.New("DISPLAY names no X server on this host")
		}
		return hostSocket{
			path: "/tmp/.X11-unix/X" + number, risk: "the keyboard and all windows of your desktop",
			env: func(string) []string { return []string{"DISPLAY=:" + number} },
		}, nil
	}
	path := os.Getenv("WAYLAND_DISPLAY")
	if path == "" {
		return hostSocket{}, errors.New("WAYLAND_DISPLAY is not set: there is no compositor")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), path)
	}
	return hostSocket{path: path, point: "wayland", env: func(target string) []string { return []string{"WAYLAND_DISPLAY=" + target} }}, nil
}

// serviceAt is the service to which a socket of the host belongs. Empty: none.
func serviceAt(path string) string {
	fi, err := os.Stat(path)
	if err != nil {
		return ""
	}
	for _, name := range [...]string{service.SSHAgent, service.Docker, service.X11, service.Wayland} {
		at := os.Getenv("SSH_AUTH_SOCK")
		if name != service.SSHAgent {
			h, err := findHostSocket(name)
			if err != nil {
				continue
			}
			at = h.path
		}
		if other, err := os.Stat(at); err == nil && os.SameFile(fi, other) {
			return name
		}
	}
	return ""
}
