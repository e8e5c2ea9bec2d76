package nsexec

import (
	"sync"

	"golang.org/x/sys/unix"
)

// readySet keeps sandboxes that have their namespaces and wait for a command:
// one for each profile that was used lately. Making a network namespace alone
// costs a third of a start.
type readySet struct {
	mu      sync.Mutex
	waiting map[profile]*sandbox
	making  map[profile]bool
	wg      sync.WaitGroup
}

var ready readySet

// maxReady is how many sandboxes wait at most.
const maxReady = 4

// take returns a sandbox of the profile, one that waited if there is one.
func (r *readySet) take(p profile) (*sandbox, error) {
	r.mu.Lock()
	s := r.waiting[p]
	delete(r.waiting, p)
	r.mu.Unlock()
	if s != nil {
		s.waited = true
		return s, nil
	}
	return spawnFirst(p, cloneInLauncher)
}

// refill makes a sandbox for the next command with this profile, while the
// current one runs. An error is none: the next Start will meet it.
func (r *readySet) refill(p profile) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[p] != nil || r.making[p] {
		return
	}
	if r.waiting == nil {
		r.waiting, r.making = make(map[profile]*sandbox), make(map[profile]bool)
	}
	r.making[p] = true
	r.wg.Go(func() {
		s, err := spawnFirst(p, cloneInLauncher)
		if err == nil && s.pid == 0 {
			err = s.awaitPid()
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.making, p)
		if err != nil {
			return
		}
		for old, o := range r.waiting {
			if len(r.waiting) < maxReady {
				break
			}
			delete(r.waiting, old)
			r.wg.Go(o.close)
		}
		r.waiting[p] = s
	})
}

// Shutdown ends the launcher and the sandboxes that wait for a command, and
// waits until they are gone. Commands that run are not touched. The next Start
// begins anew.
func Shutdown() {
	ready.wg.Wait()
	ready.mu.Lock()
	waiting := ready.waiting
	ready.waiting = nil
	ready.mu.Unlock()
	for _, s := range waiting {
		s.close()
	}
	theLauncher.mu.Lock()
	defer theLauncher.mu.Unlock()
	theLauncher.stop()
}

// signalMask is the mask of blocked signals that the command inherits: the
// calling thread's.
func signalMask() uint64 {
	var set unix.Sigset_t
	if unix.PthreadSigmask(unix.SIG_SETMASK, nil, &set) != nil {
		return 0
	}
	return set.Val[0]
}
