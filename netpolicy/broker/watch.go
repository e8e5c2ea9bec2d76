//go:build linux

package broker

import (
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// A watch ends connects of callers' own sockets that wait. None does but where another thread of the caller takes
// O_NONBLOCK away, which is the open file's, just before: that would hold up all callers, and Close. What is
// ended then is the caller's socket.
type watch struct {
	mu    sync.Mutex
	seen  map[sys.FD]int // how often each that is being connected was seen
	armed bool
}

// Not by the clock: this process may have been stopped meanwhile.
const (
	watchEvery = 500 * time.Millisecond
	watchMost  = 4
)

// attempt is connect(2) on a socket that does not wait.
func (c *call) attempt(fd sys.FD) syscall.Errno {
	if fd != c.old {
		return c.to.connect(int(fd))
	}
	w := &c.b.watch
	w.begin(fd)
	defer w.end(fd)
	return c.to.connect(int(fd))
}

func (w *watch) begin(fd sys.FD) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil {
		w.seen = make(map[sys.FD]int)
	}
	w.seen[fd] = 0
	if !w.armed {
		w.armed = true
		time.AfterFunc(watchEvery, w.look)
	}
}

func (w *watch) end(fd sys.FD) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.seen, fd)
}

// look comes again as long as there is something to be seen.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for fd, n := range w.seen {
		if w.seen[fd] = n + 1; n+1 >= watchMost {
			_ = unix.Shutdown(int(fd), unix.SHUT_RDWR)
		}
	}
	if w.armed = len(w.seen) > 0; w.armed {
		time.AfterFunc(watchEvery, w.look)
	}
}
