//go:build linux

package host

import (
	"slices"
	"strconv"
	"sync"
	"time"
)

// processes are process ids, sorted for look-ups.
type processes []int

// add appends a process id, and ignores a number that is none.
func (p *processes) add(pid string) {
	if n, err := strconv.Atoi(pid); err == nil {
		*p = append(*p, n)
	}
}

// has reports whether a process is among them.
func (p processes) has(pid string) bool {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return false
	}
	_, found := slices.BinarySearch(p, n)
	return found
}

// settledProcesses are processes whose network namespace need not be looked up again: a program that starts many
// commands would look up all processes each time. A process that was in the program's own network in two searches some
// seconds apart is skipped for up to one more second. If it binds a socket in another network in that second, that
// socket counts as one that was created later.
type settledProcesses struct {
	mu      sync.Mutex
	network string    // the program's own, as /proc/self/ns/net has it
	began   time.Time // the last search that asked all
	once    processes // those that it found there
	trusted processes // those that the search before found there, too, and the kernel's own
}

const (
	settling = time.Second      // between two searches that ask all
	settles  = 10 * time.Second // a number that is found again later may be another process's
)

var settled settledProcesses

// search begins a search. It returns the processes that need not be looked up; or, if all have to be, settle, which
// takes the kernel's own processes and those that were found in the program's own network.
func (s *settledProcesses) search(network string, now time.Time) (trusted processes, settle func(kernel, mine processes)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if network != s.network || network == "" {
		s.network, s.began, s.once, s.trusted = network, time.Time{}, nil, nil
	}
	if now.Sub(s.began) < settling {
		return s.trusted, nil
	}
	return nil, func(kernel, mine processes) {
		s.mu.Lock()
		defer s.mu.Unlock()
		apart := now.Sub(s.began)
		if network != s.network || apart < settling {
			return // another search was sooner
		}
		slices.Sort(mine)
		trusted := slices.Clone(kernel)
		for _, pid := range mine {
			if _, twice := slices.BinarySearch(s.once, pid); twice && apart < settles {
				trusted = append(trusted, pid)
			}
		}
		slices.Sort(trusted)
		s.began, s.once, s.trusted = now, mine, trusted
	}
}
