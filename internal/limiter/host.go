//go:build linux

// Package limiter enforces the limits of a command, as package limits plans it: by cgroups, by resource limits, and by
// checking at intervals. It finds out what this host has, and decides nothing. It imports features, mounts, and
// internal/cgroups, internal/limits, internal/seccomp, internal/sys and internal/userscope.
package limiter

import (
	"errors"
	"os"
	"sync"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/cgroups"
	"github.com/nsrun/nsrun/internal/limits"
	"github.com/nsrun/nsrun/internal/userscope"
	"golang.org/x/sys/unix"
)

// A Host finds the cgroups in which cgroups for limits can be made. The zero Host is ready for use, also by several
// goroutines at once.
type Host struct {
	mu     sync.Mutex
	asked  limits.Controllers // the controllers that it has looked for
	facts  limits.Facts
	v2     *cgroups.Place
	scope  *userscope.Scope                      // kept for Holds that use it; nil: none was made
	v1     map[limits.Controllers]*cgroups.Place // by controller
	closed bool
}

// ErrClosed is what Hold returns after Close.
var ErrClosed = errors.New("the limits' host was closed")

// look finds out what the host has for these limits. It looks for each controller once.
func (h *Host) look(l *limits.Limits) (limits.Facts, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return limits.Facts{}, ErrClosed
	}
	gone := h.scope != nil && h.scope.Gone()
	if want := l.Wanted(); want&^h.asked != 0 || gone {
		h.release()
		if gone {
			h.scope.Close()
			h.scope = nil
		}
		h.asked |= want
		h.facts = limits.Facts{}
		h.find()
	}
	if l.Swap >= 0 && l.Memory > 0 {
		var info unix.Sysinfo_t
		h.facts.NoSwap = unix.Sysinfo(&info) == nil && info.Totalswap == 0
	}
	if l.PIDs > 0 && (h.facts.V1|h.facts.V2)&limits.PIDsController == 0 {
		h.facts.OwnProcesses = os.Geteuid() != 0 && features.Has(features.ProcessCounts)
	}
	have := h.facts.V1 | h.facts.V2
	if l.Wanted()&(limits.MemoryController|limits.PIDsController)&^have != 0 {
		h.facts.Sees = sees()
	}
	return h.facts, nil
}

// find looks for places with the controllers in asked; h.mu is held.
func (h *Host) find() {
	var have []string
	if h.v2, have = cgroups.Find(h.asked.Names()); h.v2 != nil {
		h.v2.Clean()
	}
	for _, name := range have {
		h.facts.V2 |= limits.ParseControllers(name)
	}
	h.v1 = make(map[limits.Controllers]*cgroups.Place)
	for _, name := range (h.asked &^ h.facts.V2).Names() {
		if p := cgroups.FindV1(name); p != nil {
			p.Clean()
			c := limits.ParseControllers(name)
			h.v1[c] = p
			h.facts.V1 |= c
			if c == limits.MemoryController {
				h.facts.Swap1 = unix.Faccessat(int(p.Dir), "memory.memsw.usage_in_bytes", unix.F_OK, 0) == nil
			}
		}
	}
	if missing := h.asked &^ (h.facts.V1 | h.facts.V2); missing != 0 && os.Geteuid() != 0 {
		h.findScope(missing)
	}
}

// findScope has the user's service manager make a place, if that has all controllers that v2 has here, and one that is
// missing; h.mu is held.
func (h *Host) findScope(missing limits.Controllers) {
	if h.scope == nil {
		var err error
		if h.scope, err = userscope.Make(); err != nil {
			return // what is missing is enforced in another way, and a Notice says so
		}
	}
	h.facts.Managed = true
	var have limits.Controllers
	for _, name := range h.scope.Place().Enable(h.asked.Names()) {
		have |= limits.ParseControllers(name)
	}
	if have&missing == 0 || h.facts.V2&^have != 0 {
		return
	}
	if h.v2 != nil {
		h.v2.Close()
	}
	h.v2, h.facts.V2 = h.scope.Place(), have
}

// moves reports whether commands are moved to cgroups in h.v2, instead of starting there; h.mu is held.
func (h *Host) moves() bool { return h.scope != nil && h.v2 == h.scope.Place() }

// release closes the places, except that of the scope, to which commands may yet be moved; h.mu is held.
func (h *Host) release() {
	if h.v2 != nil && !h.moves() {
		h.v2.Close()
	}
	h.v2 = nil
	for _, p := range h.v1 {
		p.Close()
	}
	h.v1 = nil
}

// Close closes the places. All Holds must have ended.
func (h *Host) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.release()
	if h.scope != nil {
		h.scope.Close()
		h.scope = nil
	}
	h.asked, h.closed = 0, true
}
