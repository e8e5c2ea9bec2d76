//go:build linux

package nsrun

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestSocketSearchEnds: nobody looks for sockets any more when Start has failed, or Wait has returned. Searches of
// failed starts would keep files open, so that the next starts fail, too.
func TestSocketSearchEnds(t *testing.T) {
	r := NewRunner(Config{Project: testenv.Dir(t), StateDir: testenv.Dir(t)})
	defer r.Close()
	for name, works := range map[string]bool{"/bin/true": true, "/no/such/program": false} {
		x, err := r.Start(context.Background(), Request{Args: []string{name}})
		if works != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := x.Wait(); works != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if x.sockets.ended == nil || !x.sockets.ended.Load() {
			t.Errorf("%s: the search goes on", name)
		}
	}
}

// TestNoSockets: a plan is an error where not all sockets could be looked for.
func TestNoSockets(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	spec := Spec{Mounts: append(BaseMounts(), HideSockets()...)}
	all := DefaultMounts()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for _, plan := range []Spec{spec, {Mounts: all}} {
		err := plan.Command("/bin/true").Run()
		if err == nil || !strings.Contains(err.Error(), "find the sockets of the host: too many open files") {
			t.Errorf("%T %v", err, err)
		}
	}
}
