//go:build linux

package netpolicy

import (
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, c := range []struct{ text, want string }{
		{"example.org", ""},
		{"example.org:443", ""},
		{"tcp:example.org:443", ""},
		{"udp:example.org:1-65535", ""},
		{"Example.ORG.:80", "example.org:80"},
		{"example.org:80-80", "example.org:80"},
		{"_srv.a-b.example.org", ""},
		{"xn--bcher-kva.example:443", ""},
		{"Bücher.example:443", "xn--bcher-kva.example:443"},
		{"*.Bücher.example", "*.xn--bcher-kva.example"},
		{"git。example．org", "git.example.org"},
		{"*", ""},
		{"*:443", ""},
		{"udp:*:53", ""},
		{"*.example.org:443", ""},
		{"*.com", ""},
		{"db", ""},
		{"tcp.example.org", ""},
		{"tcp:tcp:80", ""},
		{"1.2.3.4", ""},
		{"1.2.3.4:80", ""},
		{"tcp:1.2.3.4:80-90", ""},
		{"10.0.0.0/8", ""},
		{"10.0.0.0/8:5432", ""},
		{"1.2.3.4/32:80", "1.2.3.4:80"},
		{"0.0.0.0/0:443", ""},
		{"[::1]:80", ""},
		{"[::1]", "::1"},
		{"::1", ""},
		{"2001:DB8::1", "2001:db8::1"},
		{"2001:db8:0:0::1:443", "2001:db8::1:443"},
		{"udp:2001:db8::/32", ""},
		{"[2001:db8::/32]:443", ""},
		{"[2001:db8::/32]", "2001:db8::/32"},
		{"::/0", ""},
		{"[::ffff:1.2.3.4]:80", "1.2.3.4:80"},
		{"::ffff:10.0.0.0/104", "10.0.0.0/8"},
		{long + "." + long + "." + long + ".example", ""},
	} {
		if c.want == "" {
			c.want = c.text
		}
		r, err := Parse(c.text)
		if err != nil || r.String() != c.want {
			t.Errorf("Parse(%q) = %q, %v; want %q", c.text, r, err, c.want)
		}
	}

	for _, c := range []struct{ text, words string }{
		{"", "no host"},
		{"tcp:", "no host"},
		{":80", "no host"},
		{"[]:80", "not an address"},
		{"[::1", "bracket is missing"},
		{"[::1]80", "may follow the bracket"},
		{"[2001:db8::]/32:443", "may follow the bracket"},
		{"[1.2.3.4]:80", "brackets are for IPv6"},
		{"[example.org]:80", "not an address"},
		{"https://example.org/", "URL"},
		{"user@example.org:443", "@"},
		{"user:secret@example.org:443", "@"},
		{"example.org:0", "not a port"},
		{"sctp:example.org:80", "protocols are tcp: and udp:"},
		{"example.org:", "a port is missing"},
		{"example.org:65536", "not a port"},
		{"example.org:080", "not a port"},
		{"example.org:+80", "not a port"},
		{"example.org:http", "not a port"},
		{"example.org:80-", "a port is missing"},
		{"example.org:90-80", "below the first"},
		{"example.org/24", "not a prefix"},
		{"10.0.0.1/8", "10.0.0.0/8"},
		{"10.0.0.0/33", "not a prefix"},
		{"2001:db8::1/32", "2001:db8::/32"},
		{"::ffff:0:0/95", "IPv4"},
		{"fe80::1%eth0", "zone"},
		{"[fe80::1%eth0]:80", "zone"},
		{"0.0.0.0", "not a destination"},
		{"[::]:80", "not a destination"},
		{"127.1", "neither a name"},
		{"127.1:80", "neither a name"},
		{"010.0.0.1", "neither a name"},
		{"2130706433", "neither a name"},
		{"0x7f.1", "neither a name"},
		{"0x7f000001:80", "neither a name"},
		{"0X7F.0.0.1", "neither a name"},
		{"127.0.0.1.", "neither a name"},
		{"1.2.3", "neither a name"},
		{"1.2.3.4.5", "neither a name"},
		{"a.0x", "neither a name"},
		{"１２７.１", "neither a name"},
		{"443", "neither a name"},
		{"tcp:443", "neither a name"},
		{"*.1", "neither a name"},
		{"exa mple.org", "a space"},
		{"example.org\x00.evil.test", "0x00"},
		{"example%2eorg", "%"},
		{"example.org\n", "0x0a"},
		{"ex$ample.org", "$"},
		{"a..b", "1 to 63"},
		{".example.org", "1 to 63"},
		{"example.org..", "1 to 63"},
		{".", "empty"},
		{"*.", "empty"},
		{"-a.example", "hyphen"},
		{"a-.example", "hyphen"},
		{long + "a.example", "1 to 63"},
		{strings.Repeat(long+".", 4) + "example", "253"},
		{"*example.org", "before the first dot"},
		{"a.*.example.org", "before the first dot"},
		{"*.*.example.org", "before the first dot"},
		{"**", "before the first dot"},
		{"localhost:80", "127.0.0.1"},
		{"*.localhost", "127.0.0.1"},
		{"\xff\xfe.example", "UTF-8"},
		{"\u2488.example\u00ad\u200d.x", "not a valid host name"},
		{"sctp:example.org:80", "not a"},
		{"icmp:10.0.0.1", "not a"},
	} {
		r, err := Parse(c.text)
		if err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("Parse(%q) = %q, %v; want an error with %q", c.text, r, err, c.words)
		}
		if !reflect.DeepEqual(r, Rule{}) {
			t.Errorf("Parse(%q) returns a rule beside the error", c.text)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"tcp:example.org:443", "*.a:1-2", "*", "[2001:db8::/32]:443", "::ffff:1.2.3.4", "10.0.0.0/8:5432", "Bücher.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := Parse(s)
		if err != nil {
			return
		}
		again, err := Parse(r.String())
		if err != nil || again != r {
			t.Fatalf("%q is %q, which is %q (%v)", s, r, again, err)
		}
		if r.Host != "" {
			if name, err := CanonicalName(r.Host); err != nil || name != r.Host {
				t.Fatalf("%q has the name %q, which is not canonical: %q, %v", s, r.Host, name, err)
			}
		}
	})
}

func TestZeroPolicy(t *testing.T) {
	for _, p := range []Policy{{}, {Rules: []Rule{{}}}, {Rules: []Rule{{Suffix: true}}}} {
		table, err := NewTable(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range someAddrs {
			for _, port := range []uint16{0, 80, 65535} {
				if dst := addrPort(a, port); p.Allows(TCP, dst, "", "e") || table.Decide(TCP, dst).Allowed {
					t.Errorf("%+v allows %v", p, dst)
				}
			}
		}
		if p.AllowsName("e") || p.AllowsName("") || table.AllowsName("e") || table.AllowsName("") {
			t.Errorf("%+v allows names", p)
		}
	}
}
