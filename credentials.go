//go:build linux

package nsrun

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/credential"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/nsexec"
)

// Credentials: each has a port of the command's own loopback device, whose listener the sandbox makes and hands over. A
// gateway outside serves it. No other process of the host can reach it.

const (
	maxCredentials  = 16
	credentialPorts = 61801 // is the first; ports of clients are smaller
	maxSecretFile   = 64 << 10
	credentialName  = "credential" // as a service
)

// route is a credential of one command.
type route struct {
	rule  credential.Rule
	at    netip.AddrPort
	serve func(net.Listener) error
}

func (c *Config) checkCredentials() string {
	if len(c.Credentials) == 0 {
		return ""
	}
	names := make(map[string]bool)
	for i := range c.Credentials {
		r := &c.Credentials[i]
		if err := r.Check(); err != nil {
			return "credential: " + err.Error()
		}
		if names[r.Variable()] {
			return "there are two credentials with the variable " + r.Variable()
		}
		names[r.Variable()] = true
	}
	switch {
	case len(c.Credentials) > maxCredentials:
		return fmt.Sprintf("there are more than %d credentials", maxCredentials)
	case c.Gateway == nil:
		return "credentials need a Gateway"
	case c.Enforcer == KernelEnforcer:
		return "with credentials the broker has to enforce the rules of the network"
	case c.Sandbox == SandboxDisabled:
		return "without a sandbox there are no credentials"
	}
	return ""
}

func (x *Execution) openCredentials(suspect func(dir string) bool) error {
	s, c := &x.services, &x.runner.config
	port := uint16(credentialPorts)
	for _, rule := range c.Credentials {
		fail := func(err error) error { return &Error{"use credential for", rule.Name(), err} }
		if x.request.Network {
			return fail(errors.New("with the host's network, other programs of this host could use it"))
		}
		for slices.Contains(c.Publish, port) {
			port++
		}
		r := route{rule: rule, at: netip.AddrPortFrom(loopback, port)}
		port++
		secret, file, err := x.secretOf(&rule, suspect)
		if err != nil {
			return fail(err)
		}
		if file != "" {
			s.secrets = append(s.secrets, file)
		}
		if s.ctx != nil {
			if r.serve, err = c.Gateway.Open(s.ctx, credential.Route{Rule: rule, Secret: secret}); err != nil {
				return fail(err)
			}
		}
		url := "http://" + r.at.String()
		s.env = append(s.env, rule.Variable()+"="+url)
		if name, path, ok := strings.Cut(rule.URL, "/"); ok {
			s.env = append(s.env, name+"="+url+"/"+path)
		} else if name != "" {
			s.env = append(s.env, name+"="+url)
		}
		s.routes = append(s.routes, r)
	}
	return nil
}

// secretOf returns a function that reads a secret when it is needed; file is its path, if it is in a file.
func (x *Execution) secretOf(rule *credential.Rule, suspect func(dir string) bool) (secret func(context.Context) (string, error), file string, err error) {
	if rule.Git {
		g, err := newGitCredential(x, *rule, suspect)
		if err != nil {
			return nil, "", err
		}
		return g.get, "", nil
	}
	if rule.Env != "" {
		name := rule.Env
		if os.Getenv(name) == "" {
			return nil, "", fmt.Errorf("the variable %s is not set", name)
		}
		return func(context.Context) (string, error) { return os.Getenv(name), nil }, "", nil
	}
	name := rule.File
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		name = filepath.Join(host.Home(), rest)
	}
	file, err = host.Trusted(name, maxSecretFile, suspect)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", escape.Quote(name), err)
	}
	return func(context.Context) (string, error) {
		b, err := host.ReadTrusted(file, maxSecretFile, nil)
		return strings.TrimSpace(string(b)), err
	}, file, nil
}

// keepsCredentials removes from the plan what contains secrets, and returns an error if the command could still read
// one.
func (x *Execution) keepsCredentials(box *plan.Sandbox) error {
	for _, r := range x.services.routes {
		fail := func(text string) error { return &Error{"use credential for", r.rule.Name(), errors.New(text)} }
		if name := r.rule.Env; name != "" {
			given := func(kv string) bool { n, _, _ := strings.Cut(kv, "="); return n == name }
			if slices.ContainsFunc(x.runner.config.Env, given) || slices.ContainsFunc(x.request.Env, given) {
				return fail("the command would have the variable " + name + ", because it is passed on by name")
			}
			secret := strings.TrimSpace(os.Getenv(name)) // as in the header
			box.Env = slices.DeleteFunc(box.Env, func(kv string) bool {
				return given(kv) || len(secret) >= leastSecret && strings.Contains(kv, secret)
			})
		}
	}
	box.Env = plan.AddEnv(box.Env, nil, x.services.gitSettings(box.Env))
	for _, file := range x.services.secrets {
		real, on, _ := host.Look(file, nil)
		if p := box.Why(real, on); p.Read {
			return &Error{"use credential in", file, errors.New("the command could read it")}
		}
	}
	return nil
}

// leastSecret is the length from which variables are searched for a secret: shorter texts occur in many variables.
const leastSecret = 6

// addGateways makes the sandbox create the sockets.
func (x *Execution) addGateways(cmd *nsexec.Cmd) {
	s := &x.services
	if len(s.routes) == 0 {
		return
	}
	var list []sandbox.Socket
	for _, r := range s.routes {
		addr := make([]byte, unix.SizeofSockaddrInet4)
		binary.NativeEndian.PutUint16(addr, unix.AF_INET)
		binary.BigEndian.PutUint16(addr[2:], r.at.Port())
		copy(addr[4:], r.at.Addr().AsSlice())
		list = append(list, sandbox.Socket{Domain: unix.AF_INET, Type: unix.SOCK_STREAM, Addr: addr, Backlog: 128})
	}
	sandbox.Of(cmd).AddSockets(list, s.serveGateways)
}

// serveGateways starts to serve the sockets that the sandbox has made.
func (s *services) serveGateways(sockets []*os.File) (err error) {
	for i, f := range sockets {
		l, lerr := net.FileListener(f)
		_ = f.Close()
		if err = errors.Join(err, lerr); lerr != nil {
			continue
		}
		r := &s.routes[i]
		s.running.Go(func() {
			defer l.Close()
			_ = r.serve(l)
		})
		if r.rule.Git {
			continue // the Approver is asked
		}
		s.mu.Lock()
		s.uses = append(s.uses, ServiceUse{Service: credentialName, Target: r.rule.Name(), About: "requests to it have the header " + r.rule.HeaderName(), Allowed: true})
		s.mu.Unlock()
	}
	return err
}
