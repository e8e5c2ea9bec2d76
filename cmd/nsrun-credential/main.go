//go:build linux

// Nsrun-credential is the gateway of nsrun run --credential: it adds a secret to requests and speaks TLS to a host.
// nsrun executes it with a socket as descriptor 3, over which a rule, a listener and, when it is needed, the secret
// come. It is a program of its own so that nsrun does not pay for its libraries. It exits when the socket is closed.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/credential"
	"github.com/nsrun/nsrun/credential/gateway"
	"github.com/nsrun/nsrun/internal/secureexec"
)

func main() {
	if err := serve(); err != nil {
		_, _ = os.Stderr.WriteString("nsrun: " + err.Error() + "\n")
		os.Exit(125)
	}
}

// answer is what nsrun says when it is asked for the secret.
type answer struct{ Secret, Error string }

func serve() error {
	if secureexec.On() {
		return secureexec.Err
	}
	f := os.NewFile(3, "socket")
	c, err := net.FileConn(f)
	if err != nil {
		return errors.New("this program is executed by nsrun run --credential")
	}
	_ = f.Close()
	control, ok := c.(*net.UnixConn)
	if !ok {
		return errors.New("descriptor 3 is not a socket of nsrun")
	}
	rule, l, err := receive(control)
	if errors.Is(err, io.EOF) {
		return nil // the command ended before this program began
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &secret{control: control, answers: make(chan answer, 1)}
	go func() {
		defer cancel()
		for in := json.NewDecoder(bufio.NewReader(control)); ; {
			var a answer
			if in.Decode(&a) != nil {
				return
			}
			select {
			case s.answers <- a:
			default: // who asked has gone
			}
		}
	}()
	run, err := gateway.Gateway{}.Open(ctx, credential.Route{Rule: rule, Secret: s.get})
	if err != nil {
		return err
	}
	return run(l)
}

// receive receives the rule, and the listener with it.
func receive(control *net.UnixConn) (rule credential.Rule, l net.Listener, err error) {
	text, rights := make([]byte, 64<<10), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := control.ReadMsgUnix(text, rights)
	if err != nil {
		return rule, nil, err
	}
	if err := json.Unmarshal(text[:n], &rule); err != nil {
		return rule, nil, err
	}
	list, err := unix.ParseSocketControlMessage(rights[:oobn])
	if err != nil || len(list) != 1 {
		return rule, nil, errors.New("nsrun passed no listener")
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil {
		return rule, nil, err
	}
	f := os.NewFile(uintptr(fds[0]), "listener")
	defer f.Close()
	l, err = net.FileListener(f)
	return rule, l, err
}

// secret asks nsrun for it, once it is needed, and again only if there was none.
type secret struct {
	control *net.UnixConn
	answers chan answer
	mu      sync.Mutex
	known   string
}

func (s *secret) get(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known != "" {
		return s.known, nil
	}
	if _, err := s.control.Write([]byte{'?'}); err != nil {
		return "", err
	}
	select {
	case a := <-s.answers:
		if a.Error != "" {
			return "", errors.New(a.Error)
		}
		s.known = a.Secret
		return a.Secret, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
