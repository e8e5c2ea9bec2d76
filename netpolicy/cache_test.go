package netpolicy

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

func TestCache(t *testing.T) {
	var c cache
	start := time.Now()
	a, b := netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("203.0.113.2")
	k := cacheKey{"a.test", dnsmessage.TypeA}
	c.put(k, []Answer{{a, 60 * time.Second}, {b, 90 * time.Second}}, start)
	c.put(cacheKey{"zero.test", dnsmessage.TypeA}, []Answer{{a, 0}}, start)
	c.put(cacheKey{"none.test", dnsmessage.TypeA}, nil, start)
	for _, q := range []struct {
		k     cacheKey
		after time.Duration
		want  []Answer
	}{
		{k, 0, []Answer{{a, 60 * time.Second}, {b, 90 * time.Second}}},
		{k, 59500 * time.Millisecond, []Answer{{a, 0}, {b, 30 * time.Second}}},
		{k, 60 * time.Second, nil},
		{cacheKey{"a.test", dnsmessage.TypeAAAA}, 0, nil},
		{cacheKey{"zero.test", dnsmessage.TypeA}, 0, nil},
		{cacheKey{"none.test", dnsmessage.TypeA}, 0, nil},
	} {
		if got, ok := c.get(q.k, start.Add(q.after)); ok != (q.want != nil) || !reflect.DeepEqual(got, q.want) {
			t.Errorf("%v after %v: %v", q.k, q.after, got)
		}
	}
	for i := range 3 * maxCached {
		c.put(cacheKey{fmt.Sprint(i), dnsmessage.TypeA}, []Answer{{a, time.Minute}}, start)
	}
	if len(c.m) > maxCached {
		t.Errorf("%d answers are kept", len(c.m))
	}
}
