//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/credential"
	"github.com/nsrun/nsrun/internal/mcpargs"
)

// The gateway of a credential is a program of its own, because linking net/http would slow down every other verb. It
// gets the secret over a socket when the command first uses it, and ends when the socket is closed. It has its own
// session, so it gets no signal from the terminal or the command.

type gatewayProgram struct{}

func (gatewayProgram) Open(ctx context.Context, r credential.Route) (serve func(net.Listener) error, err error) {
	path, err := beside("credential", "nsrun-credential")
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "gateway"), os.NewFile(uintptr(pair[1]), "gateway")
	defer theirs.Close()
	defer ours.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path)
	cmd.ExtraFiles, cmd.Stderr, cmd.Dir = []*os.File{theirs}, os.Stderr, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = slices.DeleteFunc(mcpargs.HideRuntime(os.Environ()), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return name == r.Rule.Env
	})
	if err := cmd.Start(); err != nil {
		_ = c.Close()
		return nil, err
	}
	ended := make(chan struct{})
	context.AfterFunc(ctx, func() {
		_ = c.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		close(ended)
	})
	return func(l net.Listener) error {
		err := control(ctx, c.(*net.UnixConn), l, r)
		<-ctx.Done()
		<-ended
		return err
	}, nil
}

// control gives the gateway its rule and its listener, and answers when it asks for the secret.
func control(ctx context.Context, c *net.UnixConn, l net.Listener, r credential.Route) error {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return errors.New("not a listener of TCP")
	}
	f, err := tcp.File()
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := json.Marshal(r.Rule)
	if err != nil {
		return err
	}
	if _, _, err := c.WriteMsgUnix(text, unix.UnixRights(int(f.Fd())), nil); err != nil {
		return err
	}
	_ = l.Close() // it is the gateway's now
	for question := make([]byte, 1); ; {
		if _, err := c.Read(question); err != nil {
			return err
		}
		var answer struct{ Secret, Error string }
		if answer.Secret, err = r.Secret(ctx); err != nil {
			answer.Error = err.Error()
		}
		text, err := json.Marshal(answer)
		if err == nil {
			_, err = c.Write(text)
		}
		if err != nil {
			return err
		}
	}
}
