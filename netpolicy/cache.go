package netpolicy

import (
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	maxCached = 2048 // answers of servers that are kept

	// How long answers are kept of names that cost something, so that a program
	// that asks again and again can go on: at least, and if there is no address.
	keepLeast = 5 * time.Second
	keepNone  = 30 * time.Second
)

// A cache keeps the answers of servers for their time to live: a program that connects a thousand times a second also
// asks a thousand times a second. Each use of an answer is judged anew.
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
	code    dnsmessage.RCode
	at      time.Time
	until   time.Time
}

// get returns the answers, with what is left of their time to live.
func (c *cache) get(k cacheKey, now time.Time) ([]Answer, dnsmessage.RCode, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.m[k]
	if !ok || !now.Before(e.until) {
		return nil, 0, false
	}
	var answers []Answer
	for _, a := range e.answers {
		answers = append(answers, Answer{a.Addr, max(0, a.TTL-now.Sub(e.at)).Truncate(time.Second)})
	}
	return answers, e.code, true
}

// put keeps answers until the first of them expires. Answers for a name that costs something are kept for some time
// even then, also if there is no address. Failures are not kept.
func (c *cache) put(k cacheKey, answers []Answer, code dnsmessage.RCode, costs bool, now time.Time) {
	ttl := maxToldTTL
	for _, a := range answers {
		ttl = min(ttl, a.TTL)
	}
	switch {
	case code != dnsmessage.RCodeSuccess && code != dnsmessage.RCodeNameError:
		return
	case len(answers) == 0:
		ttl = 0
		if costs {
			ttl = keepNone
		}
	case costs:
		ttl = max(ttl, keepLeast)
	}
	if ttl <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxCached {
		c.m = make(map[cacheKey]cached)
	}
	c.m[k] = cached{answers, code, now, now.Add(ttl)}
}
