//go:build linux

package nsexec

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// readySet keeps sandboxes that have their namespaces and wait for a command: one for each profile that was used
// recently. Making a network namespace alone takes a third of a start.
//
// Most have their mount namespace too, and the whiteouts by which the command before hid files. The namespace is a copy
// of the launcher's mounts, and is of use only while these stay the same: when they change, such sandboxes end at once,
// because they would keep file systems in use that somebody has unmounted.
type readySet struct {
	mu      sync.Mutex
	waiting map[profile]*clone
	making  map[profile]bool
	table   *mountTable // nil: there was no such sandbox yet
	wasted  int         // how many of them ended, one after the other, because the mounts had changed
	busy    int         // goroutines that make or end sandboxes
	idle    *sync.Cond  // busy is 0
}

var ready = newReadySet()

func newReadySet() *readySet {
	r := &readySet{waiting: make(map[profile]*clone), making: make(map[profile]bool)}
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

// maxReady is the maximum number of waiting sandboxes.
const maxReady = 4

// take returns a sandbox of the profile: a waiting one if there is one.
func (r *readySet) take(ctx context.Context, p *beginning) (*clone, error) {
	if p.common() {
		if s := r.remove(p.profile); s != nil {
			s.waited, s.ctx = true, ctx
			return s, nil
		}
	}
	if p.cgroup != nil {
		unready(p.cgroup) // what is not alike
	}
	return spawnFirst(ctx, p, cloneInLauncher)
}

// remove removes the waiting sandbox from the set and returns it, if it can be used.
func (r *readySet) remove(p profile) *clone {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.waiting[p]
	delete(r.waiting, p)
	if s != nil && s.forgetLost() {
		r.begin(func() { s.close() })
		return nil
	}
	if s == nil || s.table == nil {
		return s
	}
	if s.table.hasChanged() {
		r.waste(s)
		return nil
	}
	r.wasted = 0
	return s
}

// maxWasted is how many sandboxes in a row are made for nothing. After that they are made without mounts, because this
// program, or somebody else, mounts something for each command.
const maxWasted = 8

// waste ends a sandbox that has other mounts than the launcher; r.mu is held.
func (r *readySet) waste(s *clone) {
	if r.wasted++; r.wasted >= maxWasted {
		noMountsAhead.Store(true)
	}
	r.begin(func() { s.close() })
}

// refill makes a sandbox for the next command with this profile, while the current one, c, runs. It ignores errors,
// because the next Start will get them.
func (r *readySet) refill(first *beginning, c *Cmd) {
	if !first.common() || first.cgroup != nil {
		return
	}
	p := first.profile
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[p] != nil || r.making[p] {
		return
	}
	r.making[p] = true
	hidden := slices.Clone(c.mostHidden())
	r.begin(func() { r.fill(p, hidden) })
}

// fillPatience is how long making a sandbox in advance may take.
const fillPatience = 10 * time.Second

// fill is refill in the background.
func (r *readySet) fill(p profile, hidden []string) {
	ctx, cancel := context.WithTimeout(context.Background(), fillPatience)
	defer cancel()
	s, err := spawnReady(ctx, &beginning{profile: p})
	if err == nil && p.mounts {
		s.prepareMounts(r.mountTable(s.gen), hidden)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.making, p)
	if err != nil {
		return
	}
	if s.table != nil && s.table.hasChanged() { // outdated did not see it
		r.waste(s)
		return
	}
	if p.cgroup == nil {
		r.evict()
	}
	if old := r.waiting[p]; old != nil { // Ready was called twice
		r.begin(func() { old.close() })
	}
	r.waiting[p] = s
}

// spawnReady makes a sandbox that waits. Of one that took longer than ctx no reports can be read any more.
func spawnReady(ctx context.Context, p *beginning) (*clone, error) {
	s, err := spawnFirst(ctx, p, cloneInLauncher)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(s.awaitPid(), ctx.Err()); err != nil {
		return nil, s.giveUp(err)
	}
	s.ctx = context.Background()
	s.identify()
	return s, nil
}

// mountTable returns the mount table of the launcher of a generation. Nil: it cannot be watched.
func (r *readySet) mountTable(gen int64) *mountTable {
	pid := theLauncher.pid(gen) // which may have to wait
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.table != nil && r.table.gen == gen && !r.table.hasChanged() {
		return r.table
	}
	if r.table != nil {
		r.end(r.table) // nobody will watch it any more
		r.table.close()
		r.table = nil
	}
	if pid != 0 {
		r.table, _ = openMountTable(pid, gen, r.outdated)
	}
	return r.table
}

// outdated ends the sandboxes that have copies of the mounts as they were.
func (r *readySet) outdated(t *mountTable) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(t)
}

// end ends those that copied the mounts of t; r.mu is held.
func (r *readySet) end(t *mountTable) {
	for p, s := range r.waiting {
		if s.table == t {
			delete(r.waiting, p)
			r.waste(s)
		}
	}
}

// evict makes room for one more; it keeps sandboxes that a caller takes or ends (unready). r.mu is held.
func (r *readySet) evict() {
	n := 0
	for p, s := range r.waiting {
		if p.cgroup != nil {
			continue
		}
		if n++; n >= maxReady {
			delete(r.waiting, p)
			r.begin(func() { s.close() })
		}
	}
}

// Shutdown ends the launcher and the sandboxes that wait for a command, and waits until they are
// gone. Running commands are not affected. The next Start starts a new launcher.
func Shutdown() {
	ready.mu.Lock()
	for ready.busy > 0 {
		ready.idle.Wait()
	}
	var waiting []*clone
	for p, s := range ready.waiting {
		waiting = append(waiting, s)
		delete(ready.waiting, p)
	}
	if ready.table != nil {
		ready.table.close()
		ready.table = nil
	}
	ready.mu.Unlock()
	for _, s := range waiting {
		s.close()
	}
	theLauncher.mu.Lock()
	defer theLauncher.mu.Unlock()
	theLauncher.stop()
}
