//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// client measures one thing, a number of times, and prints the value: KIND COUNT SERVER [PROXY].
func client(args []string) error {
	if len(args) < 3 {
		return errors.New("which?")
	}
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	c := dialer{to: args[2]}
	if len(args) > 3 {
		c.proxy = args[3]
	}
	var v float64
	switch args[0] {
	case "connect":
		v, err = c.connects(count)
	case "http":
		v, err = c.requests(count)
	case "requests":
		v, err = c.together(count)
	case "stream":
		v, err = c.stream(count)
	default:
		err = errors.New("what?")
	}
	if err == nil {
		fmt.Println(v)
	}
	return err
}

// patience is for what takes a millisecond.
const patience = 10 * time.Second

// A dialer connects to a server, directly or through a proxy.
type dialer struct{ to, proxy string }

func (c dialer) dial() (net.Conn, error) {
	if c.proxy == "" {
		return net.DialTimeout("tcp", c.to, patience)
	}
	conn, err := net.DialTimeout("tcp", c.proxy, patience)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", c.to, c.to); err != nil {
		return nil, err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	return conn, err
}

// connects is the median time of a connect(2), or of a connection through the proxy, in ns.
func (c dialer) connects(n int) (float64, error) {
	at, err := netip.ParseAddrPort(c.to)
	if err != nil {
		return 0, err
	}
	times := make([]float64, 0, n)
	for range n {
		if c.proxy != "" {
			began := time.Now()
			conn, err := c.dial()
			if err != nil {
				return 0, err
			}
			times = append(times, float64(time.Since(began)))
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
			continue
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return 0, err
		}
		sa := &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
		began := time.Now()
		for err = syscall.EINTR; err == syscall.EINTR; {
			err = unix.Connect(fd, sa)
		}
		took := time.Since(began)
		// Or tens of thousands wait until their ports are free again.
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		_ = unix.Close(fd)
		if err != nil {
			return 0, err
		}
		times = append(times, float64(took))
	}
	return median(times), nil
}

// get asks for a small page, on a connection of its own.
func (c dialer) get() error {
	t := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return c.dial() },
	}
	res, err := (&http.Client{Transport: t, Timeout: patience}).Get("http://" + c.to + "/")
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, res.Body)
	if err == nil && n != page {
		err = fmt.Errorf("%d bytes came", n)
	}
	_ = res.Body.Close()
	return err
}

// requests is the median time of a request, in ns.
func (c dialer) requests(n int) (float64, error) {
	times := make([]float64, 0, n)
	for range n {
		began := time.Now()
		if err := c.get(); err != nil {
			return 0, err
		}
		times = append(times, float64(time.Since(began)))
	}
	return median(times), nil
}

// together is how many requests a second four make.
func (c dialer) together(n int) (float64, error) {
	const clients = 4
	errs := make([]error, clients)
	var all sync.WaitGroup
	began := time.Now()
	for i := range clients {
		all.Go(func() {
			for range n / clients {
				if errs[i] = c.get(); errs[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return float64(n/clients*clients) / time.Since(began).Seconds(), errors.Join(errs...)
}

// stream is how many bytes a second one connection takes.
func (c dialer) stream(n int) (float64, error) {
	conn, err := c.dial()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET /%d HTTP/1.0\r\n\r\n", n); err != nil {
		return 0, err
	}
	began := time.Now()
	got, buf := 0, make([]byte, 256<<10)
	for {
		k, err := conn.Read(buf)
		got += k
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	if got < n {
		return 0, fmt.Errorf("%d bytes came", got)
	}
	return float64(got) / time.Since(began).Seconds(), nil
}
