//go:build linux

package broker_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/netpolicy/broker"
	"github.com/nsrun/nsrun/nsexec"
)

// TestPublishFlood: any user of the host can connect to a published port as often as they like. Connections that the
// command leaves open take a limited number of descriptors of this program; when one ends, the next client is served.
// The control is that as many as the limit are connected at once. Close does not wait for them.
func TestPublishFlood(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	const most, more = broker.MaxClients, 40
	c := helper(t, "serve", "127.0.0.1:8000", strconv.Itoa(most+more+1))
	b := attachOptions(t, c, publishing(8000))
	startBefore(t, c)
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	before := openSockets(t)
	opened := func() int { return openSockets(t) - before }
	var list [most + more]net.Conn
	for _, all := range [...]bool{true, false} {
		for i := range list {
			conn, err := net.Dial("tcp", b.Published()[0].String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			list[i] = conn
		}
		// Those that are not served wait in the kernel. Start may still close some sockets of its own.
		want := len(list) + 2*most
		testenv.Eventually(t, "as many clients as may be", func() bool { return notAccepted(t, b.Published()[0]) == more && opened() >= want-5 })
		if got := opened(); got > want {
			t.Fatalf("%d clients take %d sockets, not %d", len(list), got, want)
		}
		if !all {
			break
		}
		for _, conn := range list {
			if _, err := conn.Write([]byte("shout")); err != nil {
				t.Error(err)
			}
		}
		for _, conn := range list {
			if got, err := io.ReadAll(conn); err != nil || string(got) != "SHOUT" {
				t.Fatalf("got %q, %v", got, err)
			}
			_ = conn.Close()
		}
	}
	began := time.Now()
	b.Close()
	if d := time.Since(began); d > 10*time.Second {
		t.Error("Close took", d)
	}
	testenv.Eventually(t, "no more sockets than the clients' own", func() bool { return opened() <= len(list) })
}

// notAccepted is how many clients of a listener are not accepted yet.
func notAccepted(t *testing.T, l net.Addr) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/net/tcp") // see proc_net_tcp.rst of the kernel's documentation
	if err != nil {
		t.Fatal(err)
	}
	port, listens := fmt.Sprintf(":%04X", l.(*net.TCPAddr).Port), "0A"
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasSuffix(f[1], port) && f[3] == listens {
			_, queue, _ := strings.Cut(f[4], ":")
			n, err := strconv.ParseInt(queue, 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("nobody listens at %s", l)
	return 0
}

func openSockets(t *testing.T) (n int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// TestPublishLast: a client gets what the command sent right before it ended.
func TestPublishLast(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	const many = 400_000
	for range 10 {
		c := helper(t, "serve", "127.0.0.1:8000", "1", strconv.Itoa(many))
		b := attachOptions(t, c, publishing(8000))
		startBefore(t, c)
		conn, err := net.Dial("tcp", b.Published()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Write([]byte("shout")); err != nil {
			t.Error(err)
		}
		read := make(chan int)
		go func() {
			n, _ := io.Copy(io.Discard, conn)
			read <- int(n)
		}()
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
		b.Close()
		if got, want := <-read, many*len("SHOUT"); got != want {
			t.Errorf("got %d bytes, not %d", got, want)
		}
		_ = conn.Close()
	}
}
