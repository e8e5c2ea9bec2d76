//go:build linux

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
	const ok, none = dnsmessage.RCodeSuccess, dnsmessage.RCodeNameError
	key := func(name string) cacheKey { return cacheKey{name, dnsmessage.TypeA} }
	for _, costs := range []bool{false, true} {
		name := func(s string) cacheKey { return key(fmt.Sprint(s, costs)) }
		c.put(name("a"), []Answer{{a, 60 * time.Second}, {b, 90 * time.Second}}, ok, costs, start)
		c.put(name("zero"), []Answer{{a, 0}, {b, 3 * time.Second}}, ok, costs, start)
		c.put(name("none"), nil, none, costs, start)
		c.put(name("empty"), nil, ok, costs, start)
		c.put(name("failed"), nil, dnsmessage.RCodeServerFailure, costs, start)
	}
	type kept struct {
		answers []Answer
		code    dnsmessage.RCode
		ok      bool
	}
	for _, q := range []struct {
		k     cacheKey
		after time.Duration
		want  kept
	}{
		{key("afalse"), 0, kept{[]Answer{{a, 60 * time.Second}, {b, 90 * time.Second}}, ok, true}},
		{key("afalse"), 59500 * time.Millisecond, kept{[]Answer{{a, 0}, {b, 30 * time.Second}}, ok, true}},
		{key("afalse"), 60 * time.Second, kept{}},
		{key("atrue"), 59 * time.Second, kept{[]Answer{{a, time.Second}, {b, 31 * time.Second}}, ok, true}},
		{key("atrue"), 60 * time.Second, kept{}},
		{cacheKey{"afalse", dnsmessage.TypeAAAA}, 0, kept{}},
		{key("zerofalse"), 0, kept{}},
		{key("zerotrue"), 0, kept{[]Answer{{a, 0}, {b, 3 * time.Second}}, ok, true}},
		{key("zerotrue"), keepLeast - 1, kept{[]Answer{{a, 0}, {b, 0}}, ok, true}},
		{key("zerotrue"), keepLeast, kept{}},
		{key("nonefalse"), 0, kept{}},
		{key("nonetrue"), keepNone - 1, kept{nil, none, true}},
		{key("nonetrue"), keepNone, kept{}},
		{key("emptyfalse"), 0, kept{}},
		{key("emptytrue"), keepNone - 1, kept{nil, ok, true}},
		{key("emptytrue"), keepNone, kept{}},
		{key("failedtrue"), 0, kept{}},
	} {
		var got kept
		got.answers, got.code, got.ok = c.get(q.k, start.Add(q.after))
		if !reflect.DeepEqual(got, q.want) {
			t.Errorf("%v after %v: %+v", q.k, q.after, got)
		}
	}
	for i := range 3 * maxCached {
		c.put(key(fmt.Sprint(i)), []Answer{{a, time.Minute}}, ok, false, start)
		c.put(key(fmt.Sprint("none", i)), nil, none, true, start)
	}
	if len(c.m) > maxCached {
		t.Errorf("%d answers are kept", len(c.m))
	}
}
