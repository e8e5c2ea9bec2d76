package clients

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"testing"
)

// Serve never serves more clients than it may. In the end it has served all, and when it has returned it serves none.
func TestServe(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served, next, done := make(chan struct{}, 9), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		Serve(ctx, l, 2, func(ctx context.Context, c net.Conn) {
			served <- struct{}{}
			select {
			case <-next:
			case <-ctx.Done():
			}
		})
	}()
	conns := make([]net.Conn, 3)
	for i := range conns {
		if conns[i], err = net.Dial("unix", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
	}
	<-served
	<-served
	if len(served) > 0 {
		t.Error("three clients are served at once, and two are allowed")
	}
	next <- struct{}{}
	<-served // the third
	cancel()
	<-done
	for _, c := range conns {
		if _, err := io.ReadAll(c); err != nil {
			t.Error(err)
		}
	}
	if _, err := net.Dial("unix", l.Addr().String()); err == nil {
		t.Error("it still listens")
	}
}
