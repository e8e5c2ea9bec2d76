package sshagent

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/githash"
)

// A Key is a key of an agent.
type Key struct {
	Blob    []byte // the public key, as RFC 4253 encodes it
	Comment string
}

// Fingerprint returns the fingerprint of a public key, as ssh-keygen prints it.
func Fingerprint(blob []byte) string {
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(githash.SumSHA256(blob))
}

// String returns the fingerprint and the comment, for people.
func (k Key) String() string {
	text := Fingerprint(k.Blob)
	if k.Comment != "" {
		text += " (" + escape.Quote(short(k.Comment)) + ")"
	}
	return text
}

// short shortens a text that would fill a terminal.
func short(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "…"
	}
	return s
}

// Is reports whether a name is the key's fingerprint or its comment.
func (k Key) Is(name string) bool {
	return name != "" && (name == k.Comment || name == Fingerprint(k.Blob))
}

// ParsePublic reads the first public key of a file as ssh-keygen writes it (id_ed25519.pub).
func ParsePublic(text []byte) (blob []byte, ok bool) {
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		for i, f := range fields {
			if i == 0 || i > 2 { // its type comes before the key, and maybe options before that
				continue
			}
			b, err := base64.StdEncoding.DecodeString(f)
			r := reader{b: b}
			if err == nil && bytes.Equal(r.text(), []byte(fields[i-1])) && !r.bad {
				return b, true
			}
		}
	}
	return nil, false
}

// maxKeys limits an agent's list, as in OpenSSH.
const maxKeys = 2048

// parseKeys reads an agent's list.
func parseKeys(body []byte) ([]Key, error) {
	r := reader{b: body}
	n := r.number()
	if n > maxKeys {
		return nil, errMessage
	}
	var list []Key
	for range n {
		k := Key{Blob: r.text(), Comment: string(r.text())}
		list = append(list, k)
	}
	if !r.done() {
		return nil, errMessage
	}
	return list, nil
}

func appendKeys(list []Key) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(list)))
	for _, k := range list {
		b = appendText(appendText(b, k.Blob), []byte(k.Comment))
	}
	return b
}
