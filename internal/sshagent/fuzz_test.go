//go:build linux

package sshagent

import (
	"bytes"
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestRate: a burst passes at once; after it requests pass as fast as they may.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rate
		start := time.Now()
		for range burst {
			if err := r.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("the burst took %s", d)
		}
		for range 10 * perSecond {
			_ = r.wait(t.Context())
		}
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("%d requests took %s", 10*perSecond, d)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if r.wait(ctx) == nil {
			t.Error("wait succeeds after the end of the context")
		}
	})
}

// FuzzRequest: for every request, the answer is a failure, the list of keys, or a signature with the listed key that
// the request names.
func FuzzRequest(f *testing.F) {
	key := Key{appendText(nil, []byte("ssh-ed25519")), "chosen"}
	other := Key{appendText(nil, []byte("ssh-rsa")), "other"}
	f.Add(byte(requestSign), signRequest(key.Blob, []byte("data"), 0))
	f.Add(byte(requestSign), signRequest(other.Blob, loginData([]byte("s"), "git", key.Blob), 2))
	f.Add(byte(requestKeys), []byte{})
	f.Add(byte(extension), appendText(appendText(appendText(appendText(nil, []byte(sessionBindName)), []byte("h")), []byte("s")), nil))
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		near, far := net.Pipe()
		done := make(chan struct{})
		go func() { // an agent that does all that it is asked
			defer close(done)
			defer far.Close()
			for {
				m, err := readMessage(far)
				if err != nil {
					return
				}
				switch m[0] {
				case requestKeys:
					err = writeMessage(far, keysAnswer, appendKeys([]Key{other, key}))
				case requestSign:
					if r := (&reader{b: m[1:]}); !bytes.Equal(r.text(), key.Blob) {
						t.Errorf("the agent is asked to sign with another key: %q", m)
					}
					err = writeMessage(far, signAnswer, nil)
				case extension:
					if r := (&reader{b: m[1:]}); string(r.text()) != sessionBindName {
						t.Errorf("the agent is asked for %q", m)
					}
					err = writeMessage(far, success, nil)
				default:
					t.Errorf("the agent is asked for %d", m[0])
					return
				}
				if err != nil {
					return
				}
			}
		}()
		asked := 0
		p := &Proxy{
			Dial:   func(context.Context) (net.Conn, error) { return near, nil },
			Listed: func(_ context.Context, k Key) bool { return k.Is("chosen") },
			Sign:   func(_ context.Context, u *Use) bool { asked++; _ = u.String(nil); return true },
		}
		c := client{proxy: p}
		answer, _ := c.answer(t.Context(), kind, body)
		switch {
		case answer == failure, answer == keysAnswer && kind == requestKeys, answer == success && kind == extension && len(c.bound) == 1:
		case answer == signAnswer && kind == requestSign && asked == 1:
		default:
			t.Errorf("%d is answered with %d after %d questions", kind, answer, asked)
		}
		near.Close()
		if c.agent != nil {
			<-done
		} else {
			far.Close()
			<-done
		}
	})
}

// FuzzParse: no parser panics, and writing what a parser has read gives the same bytes.
func FuzzParse(f *testing.F) {
	f.Add(appendKeys([]Key{{[]byte("blob"), "comment"}}))
	f.Add(loginData([]byte("s"), "git", []byte("blob")))
	f.Add([]byte("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA== me"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if list, err := parseKeys(b); err == nil && !bytes.Equal(appendKeys(list), b) {
			t.Errorf("%q is read as %v", b, list)
		}
		key := Key{Blob: []byte("blob")}
		u := inspect(key, b, []binding{{host: []byte("h"), session: []byte("s")}})
		if u.Kind == Login && !bytes.Contains(b, []byte(u.User)) || len(u.String(nil)) > 1000 {
			t.Errorf("%q: %+v", b, u)
		}
		_, _ = parseBinding(b)
		if blob, ok := ParsePublic(b); ok && len(blob) < 4 {
			t.Errorf("%q", blob)
		}
	})
}
