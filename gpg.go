//go:build linux

package nsrun

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/gpgagent"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/service"
	"github.com/nsrun/nsrun/mounts"
)

// gpgTime is how long gpg may take to list keys.
const gpgTime = 20 * time.Second

type gpgKeys struct {
	grips  []string          // of the parts that can sign
	names  map[string]string // of them, for people
	public []byte            // the public halves
	socket string            // of the agent
}

// openGPG makes the proxy of the gpg-agent, and a GNUPGHOME with only the public halves of the keys.
func (x *Execution) openGPG(run bool, suspect func(dir string) bool) error {
	s := &x.services
	names := x.allowedOf(service.GPGAgent)
	if names == nil {
		return nil
	}
	home := host.ServicePoint("gnupg", run)
	s.env = append(s.env, "GNUPGHOME="+home)
	s.mounts = append(s.mounts, mounts.Tmpfs(home).WithPerm(0o700))
	if s.ctx == nil {
		return s.listen(home+"/S.gpg-agent", nil)
	}
	keys, err := findGPG(s.ctx, names, suspect)
	if err != nil {
		return &Error{"allow unix socket", service.GPGAgent, err}
	}
	socket, err := host.HoldSocket(keys.socket, suspect)
	if err != nil {
		return public(err, nil, nil)
	}
	s.end = append(s.end, socket.Close)
	s.mounts = append(s.mounts, mounts.Data(home+"/pubring.gpg", keys.public))
	p := &gpgagent.Proxy{
		Dial:  func(context.Context) (net.Conn, error) { return socket.Dial() },
		Grips: keys.grips,
		Sign: func(ctx context.Context, grip, algorithm, hash string) bool {
			return x.use(ctx, service.GPGAgent, Question{
				Action: ActionSign, Target: keys.names[grip], OneTime: true,
				About: "what the command chooses (" + algorithm + " " + hash[:16] + "…)",
			})
		},
	}
	return s.listen(home+"/S.gpg-agent", p.Serve)
}

// findGPG asks gpg for secret keys that can sign.
func findGPG(ctx context.Context, names []string, suspect func(dir string) bool) (*gpgKeys, error) {
	gpg, path, err := host.Program("gpg", suspect)
	if err != nil {
		return nil, err
	}
	conf, _, err := host.Program("gpgconf", suspect)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, gpgTime)
	defer cancel()
	call := func(program string, args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Dir, cmd.WaitDelay = "/", time.Second
		cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "PATH=") }), "PATH="+path)
		return cmd.Output()
	}
	keys := &gpgKeys{names: make(map[string]string)}
	var prints []string
	for _, name := range names {
		list, err := call(gpg, "--batch", "--no-tty", "--with-colons", "--with-keygrip", "--list-secret-keys", "--", name)
		before := len(keys.grips)
		if err == nil {
			prints = append(prints, keys.read(string(list))...)
		}
		if len(keys.grips) == before {
			return nil, fmt.Errorf("gpg has no secret key %s that can sign", escape.Quote(name))
		}
	}
	if keys.public, err = call(gpg, append([]string{"--batch", "--no-tty", "--export", "--export-options", "export-minimal", "--"}, prints...)...); err != nil || len(keys.public) == 0 {
		return nil, errors.New("gpg does not export the public key")
	}
	out, err := call(conf, "--list-dirs", "agent-socket")
	if keys.socket = strings.TrimSpace(string(out)); err != nil || keys.socket == "" {
		return nil, errors.New("gpgconf does not say where the agent is")
	}
	return keys, nil
}

// read parses gpg's list, and returns the fingerprints of the keys.
func (k *gpgKeys) read(list string) (prints []string) {
	var user, print string
	var signs, primary bool
	grips := len(k.grips)
	for line := range strings.Lines(list) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 12 && f[0] != "grp" && f[0] != "fpr" || len(f) < 10 {
			continue
		}
		switch f[0] {
		case "sec", "ssb":
			primary = f[0] == "sec"
			if primary {
				user, grips = "", len(k.grips)
			}
			signs = strings.Contains(f[11], "s") && !strings.ContainsAny(f[1], "reidn")
		case "fpr":
			if print = f[9]; primary {
				prints = append(prints, print)
			}
		case "grp":
			if signs {
				k.grips = append(k.grips, f[9])
				k.names[f[9]] = print
				if user != "" {
					k.names[f[9]] += " (" + escape.Quote(user) + ")"
				}
			}
		case "uid":
			if user == "" {
				user = f[9]
				for _, grip := range k.grips[grips:] {
					k.names[grip] += " (" + escape.Quote(user) + ")"
				}
			}
		}
	}
	return prints
}
