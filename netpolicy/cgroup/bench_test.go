//go:build linux

package cgroup_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/netpolicy/cgroup"
)

// tryBench does something n times, and says how many nanoseconds one took, the median.
func tryBench(what, addr, times string) error {
	dst, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
	to := sockaddr(dst)
	kind := unix.SOCK_STREAM
	if what == "datagram" {
		kind = unix.SOCK_DGRAM
	}
	s, err := socket(dst, kind)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	if what == "throughput" {
		if err := unix.Connect(s, to); err != nil {
			return err
		}
	}
	block := make([]byte, throughputBlock)
	took := make([]time.Duration, 0, n)
	for range n {
		start := time.Now()
		switch what {
		case "connect":
			s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			if err := unix.Connect(s, to); err != nil && err != unix.EINTR {
				return err
			}
			took = append(took, time.Since(start))
			_ = unix.SetsockoptLinger(s, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
			unix.Close(s)
			continue
		case "datagram":
			if err := unix.Sendto(s, block[:4], 0, to); err != nil {
				return err
			}
		case "throughput":
			for rest := block; len(rest) > 0; {
				k, err := unix.Write(s, rest)
				if err != nil && err != unix.EINTR {
					return err
				}
				rest = rest[max(k, 0):]
			}
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return fmt.Errorf("%d ns", took[n/2].Nanoseconds())
}

const throughputBlock = 1 << 20

// benchmark compares the results of the helper with the programs and without them. It takes turns, so that other work
// on the machine disturbs both.
func benchmark(b *testing.B, what string, n int) {
	p := load(b)
	sink(b)
	few := enforce(b, p, newTable(b, "203.0.113.1:80"), cgroup.Options{Decided: func(cgroup.Decision) {}})
	many := enforce(b, p, manyTable(b, 10_000, 100_000), cgroup.Options{Decided: func(cgroup.Decision) {}})
	ways := []struct {
		name, addr string
		box        *box
		took       []float64
	}{
		{"direct", "203.0.113.1:80", newBox(b, nil), nil},
		{"enforced", "203.0.113.1:80", newBox(b, few), nil},
		{"many", learnedAddr(54321).String() + ":80", newBox(b, many), nil},
	}
	for b.Loop() {
		for i := range ways {
			var ns float64
			answer := ways[i].box.do(fmt.Sprintf("bench %s %s %d", what, ways[i].addr, n))
			if _, err := fmt.Sscanf(answer, "%f ns", &ns); err != nil {
				b.Fatal(answer)
			}
			ways[i].took = append(ways[i].took, ns)
		}
	}
	b.ReportMetric(0, "ns/op")
	direct := median(ways[0].took)
	for _, way := range ways {
		b.ReportMetric(median(way.took), "ns/"+way.name)
		b.ReportMetric(median(way.took)/direct, "x-"+way.name)
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// sink takes connections and datagrams, and what comes in them.
func sink(b *testing.B) {
	ln, err := net.Listen("tcp", "0.0.0.0:80")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, c, make([]byte, 1<<18))
				c.Close()
			}()
		}
	}()
	u, err := net.ListenPacket("udp", "0.0.0.0:80")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { u.Close() })
}

func BenchmarkConnect(b *testing.B)    { benchmark(b, "connect", 200) }
func BenchmarkDatagram(b *testing.B)   { benchmark(b, "datagram", 500) }
func BenchmarkThroughput(b *testing.B) { benchmark(b, "throughput", 30) }

// BenchmarkEnforce is what one more sandbox costs where the programs are there.
func BenchmarkEnforce(b *testing.B) {
	p := load(b)
	table := newTable(b, "203.0.113.1:80", "*.example.org:443")
	for b.Loop() {
		e, err := p.Enforce(table, cgroup.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkLoad is what the first one costs besides.
func BenchmarkLoad(b *testing.B) {
	load(b)
	for b.Loop() {
		p, err := cgroup.Load()
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
