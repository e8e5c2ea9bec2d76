//go:build linux

package nsrun_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// listening is a unix socket on which somebody listens.
func listening(t *testing.T, name string) string {
	t.Helper()
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return name
}

// answers is an Approver that gives one answer, and keeps the questions.
type answers struct {
	answer nsrun.Answer
	asked  []nsrun.Question
}

func (a *answers) Approve(_ context.Context, q nsrun.Question) (nsrun.Answer, error) {
	a.asked = append(a.asked, q)
	return a.answer, nil
}

// TestHostServices: commands get the sockets of the services that are named, at a path in a variable, and no others.
// For services that give away more, each start asks before anything runs. Of the cookies of X servers, they get those
// of the one server only.
func TestHostServices(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	p := filepath.Join(dir, "p")
	t.Setenv("DOCKER_HOST", "unix://"+listening(t, filepath.Join(dir, "docker.sock")))
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Setenv("WAYLAND_DISPLAY", filepath.Base(listening(t, filepath.Join(dir, "wayland-7"))))
	number := strconv.Itoa(1_000_000 + os.Getpid()) // nobody else's
	if err := os.Mkdir("/tmp/.X11-unix", 0o777); err == nil {
		t.Cleanup(func() { _ = os.Remove("/tmp/.X11-unix") })
	}
	listening(t, "/tmp/.X11-unix/X"+number)
	t.Setenv("DISPLAY", ":"+number+".0")
	cookie := filepath.Join(dir, "cookie")
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	entries := xEntry(256, "elsewhere", number, "of another host") + xEntry(256, hostname, number, "secret") +
		xEntry(256, hostname, "10", "of the computer from which the user came") + xEntry(0, "\x7f\x00\x00\x01", number, "by TCP") +
		xEntry(65535, "", "", "for all") + "\x01\x00\x00"
	own := base64.StdEncoding.EncodeToString([]byte(xEntry(256, hostname, number, "secret") + xEntry(65535, "", "", "for all")))
	if err := os.WriteFile(cookie, []byte(entries), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XAUTHORITY", cookie)
	for _, tc := range []struct{ name, socket, show, want, risk string }{
		{nsrun.Docker, "${DOCKER_HOST#unix://}", "echo ${DOCKER_HOST##*/}", "docker.sock\n", "docker, and with it this whole host"},
		{nsrun.Wayland, "$WAYLAND_DISPLAY", "echo ${WAYLAND_DISPLAY##*/}", "wayland\n", ""},
		{nsrun.X11, "/tmp/.X11-unix/X" + number, "echo $DISPLAY; base64 -w0 <$XAUTHORITY; echo", ":" + number + "\n" + own + "\n", "x11, and with it the keyboard and all windows"},
	} {
		yes := &answers{answer: nsrun.Allow}
		c := shown(t, nsrun.Config{Project: p, AllowUnix: []string{tc.name, tc.name}, Approver: yes, After: nsrun.Discard})
		q := nsrun.Request{Command: tc.show + "; " + self(t) + ` "` + tc.socket + `"`, Env: []string{insideEnv + "=dial", "GORACE=atexit_sleep_ms=0"}}
		if got := output(t, runner(t, c), q); got != tc.want+"reached\n" {
			t.Errorf("%s: %q", tc.name, got)
		}
		switch {
		case tc.risk == "" && len(yes.asked) > 0, tc.risk != "" && (len(yes.asked) != 1 || !yes.asked[0].OneTime || !strings.HasPrefix(yes.asked[0].Target, tc.risk)):
			t.Errorf("%s: asked %+v", tc.name, yes.asked)
		}
		if tc.risk != "" {
			c.Approver = &answers{answer: nsrun.Deny}
			res, err := runner(t, c).Run(t.Context(), q)
			if _, ok := errors.AsType[*nsrun.DeniedError](err); !ok || res.Started {
				t.Errorf("%s, no: %v, %v", tc.name, err, res.Started)
			}
			c.Approver = nil
			if res, err = runner(t, c).Run(t.Context(), q); err == nil || res.Started {
				t.Errorf("%s, without an Approver: %v", tc.name, err)
			}
		}
		c.AllowUnix = nil // the control: nothing of it is there
		q.Command = self(t) + " " + filepath.Join(dir, "docker.sock") + " " + filepath.Join(dir, "wayland-7") + " /tmp/.X11-unix/X" + number + "; env"
		if got := output(t, runner(t, c), q); strings.Contains(got, "reached") || strings.Contains(got, "DISPLAY") || strings.Contains(got, "DOCKER") {
			t.Errorf("%s, not named: %q", tc.name, got)
		}
	}
	t.Setenv("DISPLAY", "elsewhere:0")
	t.Setenv("DOCKER_HOST", "tcp://elsewhere:2375")
	t.Setenv("WAYLAND_DISPLAY", "")
	for name, want := range map[string]string{nsrun.Docker: "no unix socket", nsrun.X11: "no X server on this host", nsrun.Wayland: "no compositor", "x11:0": "without a colon"} {
		_, err := runner(t, nsrun.Config{Project: p, AllowUnix: []string{name}}).Run(t.Context(), nsrun.Request{Command: "true"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// xEntry is an entry of an Xauthority file.
func xEntry(family uint16, address, number, data string) string {
	b := binary.BigEndian.AppendUint16(nil, family)
	for _, text := range [...]string{address, number, "MIT-MAGIC-COOKIE-1", data} {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(text))), text...)
	}
	return string(b)
}

// TestWhyService: what is proposed for the socket of a service is the service.
func TestWhyService(t *testing.T) {
	dir := place(t)
	agent, other := listening(t, filepath.Join(dir, "agent")), listening(t, filepath.Join(dir, "other"))
	r := nsrun.NewRunner(nsrun.Config{Project: filepath.Join(dir, "p")})
	defer r.Close()
	for _, tt := range [...]struct{ env, path, flag string }{
		{agent, agent, "--allow-unix ssh-agent"}, {agent, other, "--allow-unix " + other}, {"", agent, "--allow-unix " + agent},
	} {
		t.Setenv("SSH_AUTH_SOCK", tt.env)
		f, err := r.Why(t.Context(), nsrun.Request{Command: "true"}, tt.path)
		if err != nil || len(f.Denied) != 1 || f.Denied[0].Flag != tt.flag {
			t.Errorf("SSH_AUTH_SOCK=%s: %s: %+v, %v", tt.env, tt.path, f.Denied, err)
		}
	}
}
