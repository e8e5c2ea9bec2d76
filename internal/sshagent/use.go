package sshagent

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"
)

// A Use is one signature that a client asks for.
type Use struct {
	Key  Key
	Kind Kind
	// User is who a Login is for, Namespace what a Signature is for ("git", "file"). Both are the client's words.
	User, Namespace string
	// Host is the public key of the host that a Login is at, if the agent has checked that the connection leads there.
	// Nil: nobody knows.
	Host []byte
	// Forwarded says that a program on Host asks, over a connection that the agent was forwarded to.
	Forwarded bool
}

// Kind is what a signature is for, as far as the data to be signed tells.
type Kind uint8

// The kinds. The zero Kind is Unknown.
const (
	Unknown   Kind = iota
	Login          // ssh's authentication of a user (RFC 4252)
	Signature      // of a file or a commit (OpenSSH's PROTOCOL.sshsig)
)

// String says for people what the signature is for. Names are those of host keys; nil: there are none.
func (u *Use) String(names func(host []byte) []string) string {
	switch u.Kind {
	case Login:
		text := "to log in as " + escape.Quote(short(u.User))
		if u.Host == nil {
			return text + " on a host that is not known (the agent did not confirm its key)"
		}
		text += " on the host with the key " + Fingerprint(u.Host)
		if names != nil {
			if list := names(u.Host); len(list) > 0 {
				text += ", known as " + escape.Quote(short(strings.Join(list, ", ")))
			}
		}
		if u.Forwarded {
			text += ", asked for by a program on another host"
		}
		return text
	case Signature:
		return "to sign a file, a commit or the like, for " + escape.Quote(short(u.Namespace))
	}
	return "to sign data of an unknown kind"
}

// sshsig begins what is signed for a file.
const sshsig = "SSHSIG"

// inspect finds out what data is, that is to be signed with a key.
func inspect(key Key, data []byte, bound []binding) Use {
	u := Use{Key: key}
	if rest, ok := bytes.CutPrefix(data, []byte(sshsig)); ok {
		r := reader{b: rest}
		namespace := r.text()
		r.text() // reserved
		r.text() // the hash algorithm
		r.text() // the hash
		if r.done() && len(namespace) > 0 {
			u.Kind, u.Namespace = Signature, string(namespace)
		}
		return u
	}
	const userauthRequest = 50
	r := reader{b: data}
	session := r.text()
	kind, user, service, method := r.byte(), r.text(), r.text(), string(r.text())
	signed := r.byte()
	r.text() // the algorithm, of which the key decides which are possible
	blob := r.text()
	var host []byte
	hostBound := method == "publickey-hostbound-v00@openssh.com"
	if hostBound {
		host = r.text()
	}
	if !r.done() || len(session) == 0 || kind != userauthRequest || signed != 1 || string(service) != "ssh-connection" ||
		!hostBound && method != "publickey" || !bytes.Equal(blob, key.Blob) {
		return u
	}
	u.Kind, u.User = Login, string(user)
	for i, b := range bound {
		if bytes.Equal(b.session, session) && (!hostBound || bytes.Equal(b.host, host)) {
			u.Host = b.host
			u.Forwarded = i > 0 && bound[i-1].forwarding
		}
	}
	return u
}

// A binding says which host a session of ssh is with. The agent has checked the host's signature.
type binding struct {
	host, session []byte
	forwarding    bool
}

// maxBindings of a connection, as OpenSSH has it.
const maxBindings = 16

func parseBinding(body []byte) (b binding, ok bool) {
	r := reader{b: body}
	b.host, b.session = r.text(), r.text()
	r.text() // the signature
	b.forwarding = r.byte() != 0
	return b, r.done() && len(b.session) > 0 && len(b.host) > 0
}

// signRequest is a request to sign, written anew.
func signRequest(key, data []byte, flags uint32) []byte {
	return binary.BigEndian.AppendUint32(appendText(appendText(nil, key), data), flags)
}
