//go:build linux

package host

import (
	"maps"
	"sync"
	"time"
)

// settledProcesses are those that need not be asked for their network namespace: a program that starts many commands
// would ask all processes for each. Those that were in the program's own network in two searches some seconds
// apart are not asked for up to a second more. What one of them binds in another network in that time is like a socket
// that comes up later.
type settledProcesses struct {
	mu      sync.Mutex
	network string          // the program's own, as /proc/self/ns/net has it
	began   time.Time       // the last search that asked all
	once    map[string]bool // by process id: those that it found there
	trusted map[string]bool // those that the search before found there, too, and the kernel's own
}

const (
	settling = time.Second      // between two searches that ask all
	settles  = 10 * time.Second // a number that is found again later may be another process's
)

var settled settledProcesses

// search begins a search. It returns the processes that need not be asked; or, where all have to be, settle, which takes
// the kernel's own, and those that were found in the program's own network.
func (s *settledProcesses) search(network string, now time.Time) (trusted map[string]bool, settle func(kernel, mine map[string]bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if network != s.network || network == "" {
		s.network, s.began, s.once, s.trusted = network, time.Time{}, nil, nil
	}
	if now.Sub(s.began) < settling {
		return s.trusted, nil
	}
	return nil, func(kernel, mine map[string]bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		apart := now.Sub(s.began)
		if network != s.network || apart < settling {
			return // another search was sooner
		}
		trusted := maps.Clone(kernel)
		if trusted == nil {
			trusted = make(map[string]bool)
		}
		for pid := range mine {
			if apart < settles && s.once[pid] {
				trusted[pid] = true
			}
		}
		s.began, s.once, s.trusted = now, mine, trusted
	}
}
