//go:build linux

package netpolicy

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"testing"
)

func addrs(texts ...string) (list []netip.Addr) {
	for _, s := range texts {
		list = append(list, netip.MustParseAddr(s))
	}
	return list
}

func TestParseHosts(t *testing.T) {
	got := ParseHosts("# nothing\n\n127.0.0.1 localhost\n203.0.113.1\tA.test a # more\n203.0.113.2 a.test.\n::ffff:203.0.113.3 m.test\n" +
		"fe80::1%eth0 zone.test\n300.0.0.1 b.test\nno\n203.0.113.4\n2001:db8::1 b\x00d.test six.test 127.1\n203.0.113.5 last.test")
	want := map[string][]netip.Addr{
		"localhost": addrs("127.0.0.1"),
		"a.test":    addrs("203.0.113.1", "203.0.113.2"),
		"a":         addrs("203.0.113.1"),
		"m.test":    addrs("203.0.113.3"),
		"six.test":  addrs("2001:db8::1"),
		"last.test": addrs("203.0.113.5"),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

func TestParseResolvConf(t *testing.T) {
	for text, want := range map[string][]string{
		"": {"127.0.0.1:53"},
		"search x.test\n# nameserver 203.0.113.1\n": {"127.0.0.1:53"},
		"nameserver 203.0.113.1\nnameserver\t2001:db8::1 ; x\nnameserver nonsense\nnameserver\nnameserver fe80::1%eth0": {"203.0.113.1:53", "[2001:db8::1]:53", "[fe80::1%eth0]:53"},
	} {
		var got []string
		for _, s := range ParseResolvConf(text) {
			got = append(got, s.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestOwnAddrs: loopback is there wherever there is a network, and it is not a host's own.
func TestOwnAddrs(t *testing.T) {
	own, err := OwnAddrs()
	if err != nil {
		t.Fatal(err)
	}
	p := MustParse("*", "127.0.0.0/8:80")
	p.HostAddrs = own
	for _, a := range own {
		if p.Allows(TCP, netip.AddrPortFrom(a, 443)) {
			t.Errorf("%v is open", a)
		}
	}
	p.HostAddrs = addrs("127.0.0.1")
	if !p.Allows(TCP, addrPort("127.0.0.1", 80)) {
		t.Error("loopback counts as an address of the host")
	}
}

// TestAddrsInProc: the kernel's files have the addresses that netlink(7) tells. A host without IPv6 lacks one of them;
// without the other one, nothing is known.
func TestAddrsInProc(t *testing.T) {
	files := map[string]string{fibTrie: `Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 192.0.2.0/24 2 0 2
        |-- 192.0.2.0
           /24 link UNICAST
        |-- 192.0.2.2
           /32 host LOCAL
        |-- 192.0.2.255
           /32 link BROADCAST
Local:
        |-- 127.0.0.0
           /8 host LOCAL
        |-- 127.0.0.1
           /32 host LOCAL
        |-- 192.0.2.2
           /32 host LOCAL
`, inet6: "fd000000000000000000000000000002 04 40 00 82     eth0\n00000000000000000000000000000001 01 80 10 80       lo\n"}
	read := func(name string) ([]byte, error) {
		text, ok := files[name]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return []byte(text), nil
	}
	if got, err := addrsInProc(read); err != nil || fmt.Sprint(got) != "[192.0.2.2 127.0.0.1 fd00::2 ::1]" {
		t.Errorf("%v, %v", got, err)
	}
	delete(files, inet6)
	if got, err := addrsInProc(read); err != nil || fmt.Sprint(got) != "[192.0.2.2 127.0.0.1]" {
		t.Errorf("%v, %v", got, err)
	}
	delete(files, fibTrie)
	if got, err := addrsInProc(read); err == nil {
		t.Errorf("%v", got)
	}
}

// TestAddrsInProcHere: on this host, too.
func TestAddrsInProcHere(t *testing.T) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	own, err := addrsInProc(os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err != nil || !slices.Contains(own, p.Addr().WithZone("")) {
			t.Errorf("%v is not in %v (%v)", a, own, err)
		}
	}
}
