package nsexec

import (
	"sync"
)

// readySet keeps sandboxes that have their namespaces and wait for a command:
// one for each profile that was used lately. Making a network namespace alone
// costs a third of a start.
type readySet struct {
	mu      sync.Mutex
	waiting map[profile]*sandbox
	making  map[profile]bool
	busy    int        // goroutines that make or end sandboxes
	idle    *sync.Cond // busy is 0
}

var ready = newReadySet()

func newReadySet() *readySet {
	r := &readySet{waiting: make(map[profile]*sandbox), making: make(map[profile]bool)}
	r.idle = sync.NewCond(&r.mu)
	return r
}

// begin runs f in the background; r.mu is held.
func (r *readySet) begin(f func()) {
	r.busy++
	go func() {
		f()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.busy--; r.busy == 0 {
			r.idle.Broadcast()
		}
	}()
}

// maxReady is how many sandboxes wait at most.
const maxReady = 4

// take returns a sandbox of the profile, one that waited if there is one.
func (r *readySet) take(p *beginning) (*sandbox, error) {
	if p.common() {
		r.mu.Lock()
		s := r.waiting[p.profile]
		delete(r.waiting, p.profile)
		r.mu.Unlock()
		if s != nil {
			s.waited = true
			return s, nil
		}
	}
	return spawnFirst(p, cloneInLauncher)
}

// refill makes a sandbox for the next command with this profile, while the
// current one runs. An error is none: the next Start will meet it.
func (r *readySet) refill(first *beginning) {
	if !first.common() {
		return
	}
	p := first.profile
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[p] != nil || r.making[p] {
		return
	}
	r.making[p] = true
	r.begin(func() {
		s, err := spawnFirst(&beginning{profile: p}, cloneInLauncher)
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
			r.begin(func() { o.close() })
		}
		r.waiting[p] = s
	})
}

// Shutdown ends the launcher and the sandboxes that wait for a command, and
// waits until they are gone. Commands that run are not touched. The next Start
// begins anew.
func Shutdown() {
	ready.mu.Lock()
	for ready.busy > 0 {
		ready.idle.Wait()
	}
	var waiting []*sandbox
	for p, s := range ready.waiting {
		waiting = append(waiting, s)
		delete(ready.waiting, p)
	}
	ready.mu.Unlock()
	for _, s := range waiting {
		s.close()
	}
	theLauncher.mu.Lock()
	defer theLauncher.mu.Unlock()
	theLauncher.stop()
}
