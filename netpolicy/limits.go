package netpolicy

import (
	"math"
	"strings"
	"sync"
	"time"
)

// What "*.suffix" lets a sandbox ask for can carry data out: the parts of the name that no rule wrote are read by the
// name's server. It cannot be told from an honest name, but it can be made slow: each question that is passed on costs
// the characters of its name. One that was asked before costs less: which of the names that are remembered it is says
// no more than the fewest characters do. Repeated questions are answered from the cache, and that costs nothing.
//
// A character is one of 39. So at the fewest of them a question says most: which of 39 + 39² + 39³ + 39⁴ names, and
// which of two types, are 22.2 bits for 4 characters. That is 2.8 kB at once, and then 11 bytes a second; when it is
// asked says something, too. Names that rules have in full cost nothing: they are the rules' choice.
const (
	freeChars      = 4096             // what may be spent at once
	charsPerSecond = 16               // what comes back
	leastChars     = 4                // what a name costs, the second time or if it is shorter
	maxFree        = 120              // characters of a name that no rule wrote
	maxRandom      = 40               // a label longer than that must not look random
	randomBits     = 3.7              // what looks random: so many bits per character
	maxSeen        = 4096             // names that are remembered, and as many of before
	forwardBurst   = 2000             // queries at once
	forwardsASec   = 500              // and per second
	limitsForget   = 10 * time.Minute // names are remembered so long, more or less
)

// limits counts what a sandbox may still ask for.
type limits struct {
	mu       sync.Mutex
	last     time.Time
	chars    float64
	forwards float64
	seen     map[string]bool // names asked for since forgot
	before   map[string]bool // and in the time before that
	forgot   time.Time
}

// take reports whether a name may be asked for now, and counts it. free is the number of its characters that the
// sandbox chose.
func (l *limits) take(name string, free int, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.chars, l.forwards, l.last, l.forgot = freeChars, forwardBurst, now, now
		l.seen = make(map[string]bool)
	}
	passed := max(0, now.Sub(l.last).Seconds())
	l.last = now
	l.chars = min(freeChars, l.chars+passed*charsPerSecond)
	l.forwards = min(forwardBurst, l.forwards+passed*forwardsASec)
	if len(l.seen) >= maxSeen || now.Sub(l.forgot) > limitsForget {
		l.before, l.seen, l.forgot = l.seen, make(map[string]bool), now
	}
	if l.forwards < 1 {
		return false
	}
	if free > 0 {
		cost := float64(leastChars)
		if !l.seen[name] && !l.before[name] {
			if free > maxFree || looksRandom(name[:free]) {
				return false
			}
			cost = max(cost, float64(free))
		}
		if l.chars < cost {
			return false
		}
		l.chars -= cost
		l.seen[name] = true
	}
	l.forwards--
	return true
}

// looksRandom reports whether a label is long and has little order in it.
func looksRandom(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		if len(label) > maxRandom && entropy(label) > randomBits {
			return true
		}
	}
	return false
}

// entropy returns the bits per character of a text, judged by itself.
func entropy(s string) float64 {
	var count [256]int
	for i := range len(s) {
		count[s[i]]++
	}
	var bits float64
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}
