// Package service has the names of services that can be given in place of the path of a unix socket: in flags, in files
// and in nsrun.Config. It imports nothing, and does nothing.
package service

import (
	"errors"
	"strings"
)

// SSHAgent is the caller's ssh-agent, GPGAgent the gpg-agent and DBus the session bus, by proxies. The others are
// sockets of the host as they are.
const (
	SSHAgent = "ssh-agent"
	GPGAgent = "gpg-agent"
	DBus     = "dbus"
	Docker   = "docker"
	X11      = "x11"
	Wayland  = "wayland"
)

// A Service is what a text names: a service, and which part of it.
type Service struct {
	Name string
	// Arg is what stands behind the colon: of SSHAgent and GPGAgent a key, of DBus a name on the bus. Empty:
	// nothing does, which SSHAgent alone allows.
	Arg string
}

// Parse reads the name of a service; ok is false for a path.
func Parse(text string) (s Service, ok bool, err error) {
	name, arg, colon := strings.Cut(text, ":")
	switch name {
	case SSHAgent:
	case GPGAgent:
		if arg == "" {
			return Service{}, true, errors.New("a key is missing: write gpg-agent:KEY, with a KEY that gpg --list-secret-keys takes")
		}
	case DBus:
		if !busName(arg) {
			return Service{}, true, errors.New("a name is missing: write dbus:NAME, with the name of a program on the bus, such as org.freedesktop.Notifications, or org.example.*")
		}
	case Docker, X11, Wayland:
		if colon {
			return Service{}, true, errors.New("write " + name + " without a colon")
		}
		return Service{Name: name}, true, nil
	default:
		return Service{}, false, nil
	}
	if colon && arg == "" {
		return Service{}, true, errors.New("a key is missing after the colon: a comment, a fingerprint, or the file of a public key")
	}
	return Service{name, arg}, true, nil
}

// busName reports whether a program can have that name on a bus, or it ends with ".*" and stands for names below it.
func busName(name string) bool {
	name = strings.TrimSuffix(name, ".*")
	elements := 0
	for e := range strings.SplitSeq(name, ".") {
		elements++
		if e == "" || e[0] >= '0' && e[0] <= '9' || strings.Trim(e, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			return false
		}
	}
	return elements > 1 && len(name) <= 253
}

// Is reports whether a text names a service, and no path.
func Is(text string) bool {
	_, ok, _ := Parse(text)
	return ok
}
