package sshagent

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/escape"
)

// A Use is one signature that a client asks for.
type Use struct {
	Key  Key
	Kind Kind
	// User is the user of a Login, and Namespace the purpose of a Signature ("git", "file"). The client chooses
	// both.
	User, Namespace string
	// Host is the public key of the host of a Login, if the agent has checked it. Nil: unknown.
	Host []byte
	// Named says that what is signed contains Host, so no other host accepts it. Otherwise it contains only the
	// session, and whoever has the private half of Host can have vouched for a session with another host.
	Named bool
	// Forwarded says that a program on another host asks, to which the agent was forwarded.
	Forwarded bool
}

// Kind is the purpose of a signature, by the data to be signed.
type Kind uint8

// The kinds. The zero Kind is Unknown.
const (
	Unknown   Kind = iota
	Login          // ssh's authentication of a user (RFC 4252)
	Signature      // of a file or a commit (OpenSSH's PROTOCOL.sshsig)
)

// String says for people what the signature is for. names returns the names of a host key. Nil: none are known.
func (u *Use) String(names func(host []byte) []string) string {
	switch u.Kind {
	case Login:
		text := "to log in as " + word(u.User)
		if u.Host == nil {
			return text + " on a host that is not known (the agent did not confirm its key)"
		}
		var list []string
		if names != nil {
			list = names(u.Host)
		}
		switch {
		case !u.Named && len(list) == 0: // anybody can make such a key, the command too
			text += " on a host that is not known (the request does not name it; the key " + Fingerprint(u.Host) + " can be anybody's)"
		case len(list) == 0:
			text += " on the host with the key " + Fingerprint(u.Host)
		default:
			text += " on the host with the key " + Fingerprint(u.Host) + ", known as " + escape.Quote(short(strings.Join(list, ", ")))
			if !u.Named {
				text += ", or where this host passes it on"
			}
		}
		if u.Forwarded {
			text += ", asked for by a program on another host"
		}
		return text
	case Signature:
		return "to sign a file, a commit or the like, for " + word(u.Namespace)
	}
	return "to sign data of an unknown kind"
}

// word is what the client chose, such that nobody can take any of it for nsrun's words.
func word(s string) string {
	s = short(s)
	text := escape.Quote(s)
	if text == s && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789._@+-…") != "" {
		text = strconv.Quote(s)
	}
	return text
}

// sshsig begins the data for a Signature.
const sshsig = "SSHSIG"

// inspect finds out the purpose of data that is to be signed with a key.
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
	r.text() // the algorithm
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
			u.Host, u.Named = b.host, hostBound
			u.Forwarded = i > 0 && bound[i-1].forwarding
		}
	}
	return u
}

// A binding binds a session of ssh to its host. The agent has checked the host's signature.
type binding struct {
	host, session []byte
	forwarding    bool
}

// maxBindings limits the bindings of a connection, as in OpenSSH.
const maxBindings = 16

func parseBinding(body []byte) (b binding, ok bool) {
	r := reader{b: body}
	b.host, b.session = r.text(), r.text()
	r.text() // the signature
	b.forwarding = r.byte() != 0
	return b, r.done() && len(b.session) > 0 && len(b.host) > 0
}

// signRequest returns the body of a request to sign.
func signRequest(key, data []byte, flags uint32) []byte {
	return binary.BigEndian.AppendUint32(appendText(appendText(nil, key), data), flags)
}
