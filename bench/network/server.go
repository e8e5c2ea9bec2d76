//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// page is how long the small page is, in bytes.
const page = 1024

// serve serves a small page, and as many bytes as a path says, until it is killed.
func serve() error {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	small := make([]byte, page)
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.ParseInt(strings.TrimPrefix(r.URL.Path, "/"), 10, 64)
		if err != nil {
			_, _ = w.Write(small)
			return
		}
		chunk := make([]byte, 256<<10)
		for n > 0 {
			k, err := w.Write(chunk[:min(n, int64(len(chunk)))])
			if err != nil {
				return
			}
			n -= int64(k)
		}
	}))
}

// proxy is an HTTP CONNECT proxy, until it is killed.
func proxy() error {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go tunnel(c)
	}
}

// tunnel serves one client; data is spliced, not copied through this process.
func tunnel(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	r, err := http.ReadRequest(in)
	if err != nil || r.Method != http.MethodConnect {
		return
	}
	out, err := net.Dial("tcp", r.Host)
	if err != nil {
		_, _ = io.WriteString(c, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
		return
	}
	defer out.Close()
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.CopyN(out, in, int64(in.Buffered()))
		_, _ = io.Copy(out, c)
		_ = out.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(c, out)
	_ = c.(*net.TCPConn).CloseWrite()
	<-done
}
