package netpolicy

import (
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// maxCached is how many answers of servers are kept.
const maxCached = 2048

// A cache keeps what servers answered, for the time to live they gave: a program that
// connects a thousand times a second asks a thousand times a second. What is kept is
// judged anew for each answer.
type cache struct {
	mu sync.Mutex
	m  map[cacheKey]cached
}

type cacheKey struct {
	name string
	typ  dnsmessage.Type
}

type cached struct {
	answers []Answer
	at      time.Time
	until   time.Time
}

// get returns the answers, with what is left of their time to live.
func (c *cache) get(k cacheKey, now time.Time) ([]Answer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.m[k]
	if !ok || !now.Before(e.until) {
		return nil, false
	}
	answers := make([]Answer, len(e.answers))
	for i, a := range e.answers {
		answers[i] = Answer{a.Addr, (a.TTL - now.Sub(e.at)).Truncate(time.Second)}
	}
	return answers, true
}

// put keeps answers until the first of them ends.
func (c *cache) put(k cacheKey, answers []Answer, now time.Time) {
	if len(answers) == 0 {
		return
	}
	ttl := maxToldTTL
	for _, a := range answers {
		ttl = min(ttl, a.TTL)
	}
	if ttl <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxCached {
		c.m = make(map[cacheKey]cached)
	}
	c.m[k] = cached{answers, now, now.Add(ttl)}
}
