//go:build linux

package nsrun

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/service"
	"github.com/nsrun/nsrun/internal/sshagent"
)

// chosenKeys are the agent's keys that a command can use.
type chosenKeys struct {
	names []string // comments and fingerprints
	blobs [][]byte // of files
	asked bool     // the Approver is asked about the others

	mu      sync.Mutex
	answers map[string]func() bool // by fingerprint; they wait for the Approver
}

// openAgent makes the proxy of the ssh-agent.
func (x *Execution) openAgent(run bool, suspect func(dir string) bool) error {
	s := &x.services
	keys := &chosenKeys{answers: make(map[string]func() bool)}
	wanted := false
	for _, text := range x.runner.config.AllowUnix {
		v, ok, err := service.Parse(text)
		switch {
		case err != nil:
			return &Error{"allow unix socket", text, err}
		case !ok || v.Name != service.SSHAgent:
			continue
		}
		wanted = true
		if err := keys.add(v.Arg, suspect); err != nil {
			return &Error{"allow unix socket", text, err}
		}
	}
	if !wanted {
		return nil
	}
	target := host.ServicePoint("ssh-agent", run)
	s.env = append(s.env, "SSH_AUTH_SOCK="+target)
	if s.ctx == nil {
		return s.listen(target, nil)
	}
	name := os.Getenv("SSH_AUTH_SOCK")
	if name == "" {
		return &Error{"allow unix socket", service.SSHAgent, errors.New("SSH_AUTH_SOCK is not set: there is no agent")}
	}
	socket, err := host.HoldSocket(name, suspect)
	if err != nil {
		return public(err, nil, nil)
	}
	s.end = append(s.end, socket.Close)
	if err := keys.check(s.ctx, socket); err != nil {
		return &Error{"allow unix socket", service.SSHAgent, err}
	}
	p := &sshagent.Proxy{
		Dial:   func(context.Context) (net.Conn, error) { return socket.Dial() },
		Listed: func(ctx context.Context, k sshagent.Key) bool { return x.mayList(ctx, keys, k) },
		Sign: func(ctx context.Context, u *sshagent.Use) bool {
			return x.use(ctx, service.SSHAgent, Question{Action: ActionSign, Target: u.Key.String(), About: u.String(hostNames), OneTime: true})
		},
	}
	return s.listen(target, p.Serve)
}

// add adds a chosen key; with none, the Approver is asked about each key.
func (k *chosenKeys) add(name string, suspect func(dir string) bool) error {
	if name == "" {
		k.asked = true
		return nil
	}
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		name = filepath.Join(host.Home(), rest)
	}
	if !filepath.IsAbs(name) {
		k.names = append(k.names, name)
		return nil
	}
	// A private key is not read: its public half is beside it.
	if !strings.HasSuffix(name, ".pub") {
		name += ".pub"
	}
	text, err := host.ReadTrusted(name, maxKeyFile, suspect)
	if err != nil {
		return err
	}
	blob, ok := sshagent.ParsePublic(text)
	if !ok {
		return fmt.Errorf("%s is not the file of a public key", escape.Quote(name))
	}
	k.blobs = append(k.blobs, blob)
	return nil
}

// maxKeyFile is the maximum size of a file with a public key, and maxKnownHosts that of a file with known hosts.
const (
	maxKeyFile    = 64 << 10
	maxKnownHosts = 4 << 20
)

// check finds out whether the agent answers and has the chosen keys.
func (k *chosenKeys) check(ctx context.Context, socket *host.Socket) error {
	conn, err := socket.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	list, err := sshagent.Keys(ctx, conn)
	if err != nil {
		return fmt.Errorf("ask the agent: %w", err)
	}
	has := func(f func(sshagent.Key) bool) bool { return slices.ContainsFunc(list, f) }
	for _, name := range k.names {
		if !has(func(key sshagent.Key) bool { return key.Is(name) }) {
			return fmt.Errorf("the agent has no key %s (ssh-add -l lists fingerprints and comments)", escape.Quote(name))
		}
	}
	for _, blob := range k.blobs {
		if !has(func(key sshagent.Key) bool { return bytes.Equal(key.Blob, blob) }) {
			return fmt.Errorf("the agent has no key %s (try: ssh-add)", sshagent.Fingerprint(blob))
		}
	}
	return nil
}

// chosen reports whether a key was named.
func (k *chosenKeys) chosen(key sshagent.Key) bool {
	return slices.ContainsFunc(k.names, key.Is) ||
		slices.ContainsFunc(k.blobs, func(blob []byte) bool { return bytes.Equal(blob, key.Blob) })
}

// mayList reports whether the command may know of a key. Each is asked about once.
func (x *Execution) mayList(ctx context.Context, keys *chosenKeys, k sshagent.Key) bool {
	if keys.chosen(k) {
		return true
	}
	if !keys.asked {
		return false
	}
	keys.mu.Lock()
	id := sshagent.Fingerprint(k.Blob)
	answer := keys.answers[id]
	if answer == nil {
		answer = sync.OnceValue(func() bool {
			return x.use(ctx, service.SSHAgent, Question{Action: ActionKey, Target: k.String()})
		})
		keys.answers[id] = answer
	}
	keys.mu.Unlock() // nobody who asks about another key waits for the user
	return answer()
}

// hostNames are the names in the caller's known_hosts (sshd(8)) for a host's key. Hashed names cannot be read.
func hostNames(key []byte) (names []string) {
	f, err := os.Open(filepath.Join(host.Home(), ".ssh/known_hosts"))
	if err != nil {
		return nil
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxKnownHosts))
	want := base64.StdEncoding.EncodeToString(key)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[2] != want || strings.HasPrefix(fields[0], "|") || strings.HasPrefix(fields[0], "@") {
			continue
		}
		for name := range strings.SplitSeq(fields[0], ",") {
			if !slices.Contains(names, name) && len(names) < 3 {
				names = append(names, name)
			}
		}
	}
	return names
}
