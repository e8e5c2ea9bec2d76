package gateway

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// A mask replaces each byte of a secret by an asterisk.
type mask struct{ words [][]byte }

// leastSecret is the length of the shortest secret that is masked, in bytes. Shorter words occur in many answers.
const leastSecret = 6

// newMask returns the mask for a secret, and for the value of the header with it. Hosts take the value apart, and send
// parts of it back: without what is in front of the first space, as "Bearer", and without spaces around it.
func newMask(secret, value string) *mask {
	m := &mask{}
	rest := func(s string) string {
		_, after, _ := strings.Cut(strings.TrimSpace(s), " ")
		return after
	}
	m.add(secret)
	m.add(rest(secret))
	if after := rest(value); after != "" {
		value = after
	}
	m.add(value)
	return m
}

// add adds a word, and the form of it that is in JSON and in Go's errors.
func (m *mask) add(s string) {
	if s = strings.TrimSpace(s); len(s) < leastSecret {
		return
	}
	m.words = append(m.words, []byte(s))
	if quoted := strconv.Quote(s); len(quoted) > len(s)+2 {
		m.words = append(m.words, []byte(quoted[1:len(quoted)-1]))
	}
}

func (m *mask) replace(b []byte) {
	for _, word := range m.words {
		for rest := b; ; {
			i := bytes.Index(rest, word)
			if i < 0 {
				break
			}
			for j := range word {
				rest[i+j] = '*'
			}
			rest = rest[i+len(word):]
		}
	}
}

func (m *mask) text(s string) string {
	b := []byte(s)
	m.replace(b)
	return string(b)
}

// header replaces secrets in the values of headers, and deletes headers whose names contain one.
func (m *mask) header(h http.Header) {
	for name, values := range h {
		for _, word := range m.words {
			if strings.Contains(strings.ToLower(name), strings.ToLower(string(word))) {
				delete(h, name)
			}
		}
		for i := range values {
			values[i] = m.text(values[i])
		}
	}
}

// unfinished returns how many bytes at the end of b may be the beginning of a secret: those after the last byte that no
// secret contains, as far as they are fewer than a whole secret. It does not look at the secrets: the client can have
// the host send any text, and sees which bytes are held back, so it would find out a secret character by character.
func (m *mask) unfinished(b []byte) (n int) {
	most := 0
	for _, word := range m.words {
		most = max(most, len(word)-1)
	}
	for n < min(most, len(b)) && isText(b[len(b)-1-n]) {
		n++
	}
	return n
}

// isText reports whether a secret can contain a byte (credential.CheckSecret).
func isText(c byte) bool { return ' ' <= c && c <= '~' }

// masked is a body without secrets. It holds back only bytes of an unfinished line, which may be the beginning of one.
type masked struct {
	io.ReadCloser
	mask    *mask
	trailer func() // called at the end
	held    []byte // unfinished
	ready   []byte // without secrets
	err     error  // comes after ready
	buf     [16 << 10]byte
}

func (m *masked) Read(p []byte) (int, error) {
	for len(m.ready) == 0 {
		if m.err != nil {
			return 0, m.err
		}
		n, err := m.ReadCloser.Read(m.buf[:])
		b := append(m.held, m.buf[:n]...)
		m.mask.replace(b)
		keep := m.mask.unfinished(b)
		if err == io.EOF { // otherwise it breaks off, maybe in the middle of a secret
			keep = 0
		}
		if err != nil {
			m.err = err
			m.trailer()
		}
		m.ready, m.held = b[:len(b)-keep], bytes.Clone(b[len(b)-keep:])
	}
	n := copy(p, m.ready)
	m.ready = m.ready[n:]
	return n, nil
}
