package sshagent

import (
	"encoding/binary"
	"errors"
	"io"
)

// Types of messages. A message is a length of four bytes, a type, and a body.
const (
	failure         = 5
	success         = 6
	requestKeys     = 11
	keysAnswer      = 12
	requestSign     = 13
	signAnswer      = 14
	extension       = 27
	sessionBindName = "session-bind@openssh.com"
)

// maxMessage is the largest message, as in OpenSSH, in bytes.
const maxMessage = 256 << 10

var errMessage = errors.New("not a message of an ssh-agent")

// readMessage reads one message, without its length.
func readMessage(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > maxMessage {
		return nil, errMessage
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return b, err
}

// writeMessage writes one message, by one call of Write.
func writeMessage(w io.Writer, kind byte, body []byte) error {
	b := make([]byte, 0, 5+len(body))
	b = binary.BigEndian.AppendUint32(b, uint32(1+len(body)))
	b = append(append(b, kind), body...)
	_, err := w.Write(b)
	return err
}

// A reader takes values from a message. After a mistake bad is set, and all values are empty.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) number() uint32 {
	if len(r.b) < 4 {
		r.b, r.bad = nil, true
		return 0
	}
	n := binary.BigEndian.Uint32(r.b)
	r.b = r.b[4:]
	return n
}

func (r *reader) text() []byte {
	n := r.number()
	if r.bad || uint64(n) > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return nil
	}
	s := r.b[:n:n]
	r.b = r.b[n:]
	return s
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

// done reports whether there was no mistake, and nothing is left.
func (r *reader) done() bool { return !r.bad && len(r.b) == 0 }

func appendText(b, s []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}
