//go:build linux

package wall

import (
	"runtime"
	"sync"
	"syscall"

	"github.com/nsrun/nsrun/internal/notify"
	"github.com/nsrun/nsrun/internal/sys"
)

// aside answers calls about files on threads of their own, because a file system may not answer: then the other calls
// of the command go on, until maxAside threads wait for it.
type aside struct {
	working sync.WaitGroup

	mu      sync.Mutex
	threads int
	queue   []work // while there are maxAside threads; one for each thread of the command at most
}

type work struct {
	n      notify.Notification
	answer func(*notify.Notification)
}

// maxAside is how many calls about files are answered at once.
const maxAside = 16

// answer has answer called for a call, on a thread that has no more rights than the command.
func (a *aside) answer(l notify.Listener, n notify.Notification, answer func(*notify.Notification)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := work{n, answer}
	if a.threads == maxAside {
		a.queue = append(a.queue, w)
		return
	}
	a.threads++
	a.working.Go(func() {
		runtime.LockOSThread() // as in serve
		raise, lowered := sys.Lower(sys.AllCapabilities)
		for more := true; more; w, more = a.next() {
			if lowered {
				w.answer(&w.n)
			} else {
				l.Answer(w.n.ID, syscall.EPERM)
			}
		}
		if !lowered || raise() {
			runtime.UnlockOSThread()
		}
	})
}

// next returns what a thread has to do next. False: nothing.
func (a *aside) next() (w work, more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) == 0 {
		a.threads--
		return w, false
	}
	w, a.queue = a.queue[0], a.queue[1:]
	return w, true
}
