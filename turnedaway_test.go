//go:build linux

package nsrun_test

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/wall"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/netpolicy/broker"
)

func init() { insides["waiting"] = insideWaiting }

// insideWaiting connects sockets to a server that answers nobody. It ends when as many connects as its second argument
// says have failed at once; its third argument says how many others wait then.
func insideWaiting(args []string) int {
	port := netip.MustParseAddrPort(args[0]).Port()
	fails, _ := strconv.Atoi(args[1])
	waits, _ := strconv.Atoi(args[2])
	failed := make(chan error)
	for range waits + fails {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		go func() {
			failed <- sys.Retry(func() error {
				return unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: int(port)})
			})
		}()
	}
	for range fails {
		fmt.Println(<-failed)
	}
	return 0
}

// TestTurnedAway: a command learns by an error, and its caller by a notice, that too many connects wait at once.
func TestTurnedAway(t *testing.T) {
	const fails = 3
	at := crowded(t)
	for _, c := range []struct {
		backend  nsrun.Backend
		enforcer nsrun.Enforcer
		most     int
	}{{nsrun.NativeBackend, nsrun.BrokerEnforcer, broker.MaxWaiting}, {nsrun.LandlockBackend, nsrun.AutoEnforcer, wall.MaxWaiting}} {
		t.Run(c.backend.String(), func(t *testing.T) {
			if c.backend == nsrun.LandlockBackend {
				needLandlock(t)
			}
			r := runner(t, shown(t, nsrun.Config{
				Project: filepath.Join(place(t), "p"), Mode: nsrun.Direct, Backend: c.backend, Enforcer: c.enforcer,
				Net: netpolicy.MustParse("tcp:" + at.String()),
			}))
			for _, n := range []int{0, fails} {
				res, err := r.Run(t.Context(), insideRequest(t, "waiting", at.String(), strconv.Itoa(n), strconv.Itoa(c.most)))
				if got := strings.Count(string(res.Stdout.Bytes()), unix.EAGAIN.Error()); err != nil || got != n {
					t.Errorf("%v, %s, want %d errors", err, res, n)
				}
				want := fmt.Sprintf("%d connections failed (EAGAIN): at most %d can wait for an answer at once", n, c.most)
				told := slices.ContainsFunc(res.Notices, func(o nsrun.Notice) bool { return o.Kind == nsrun.NoticeLimit && o.Text == want })
				if told != (n > 0) {
					t.Errorf("after %d errors the notices are %q", n, res.Notices)
				}
			}
		})
	}
}
