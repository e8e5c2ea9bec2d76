//go:build linux

package nsrun

import (
	"bytes"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/host"
)

// sshMessages are messages of ssh that name no file, and what tells the files of ~/.ssh without which it fails so.
var sshMessages = [...]struct {
	text  string
	needs func(base string) bool
}{
	{"host key verification failed", func(base string) bool { return strings.HasPrefix(base, "known_hosts") }},
	{"permission denied (publickey", isSSHKey},
}

// sshKeys are the keys that ssh uses without being told to, the usual one first.
var sshKeys = [...]string{"id_ed25519", "id_rsa", "id_ecdsa", "id_ed25519_sk", "id_ecdsa_sk", "id_dsa"}

// isSSHKey reports whether a name in ~/.ssh can be that of a key: it is no other file that ssh looks for.
func isSSHKey(base string) bool {
	return !slices.Contains([]string{"config", "rc", "environment", "agent"}, base) && !strings.HasPrefix(base, "known_hosts") &&
		!strings.HasPrefix(base, "authorized_keys") && path.Ext(base) != ".pub"
}

// sshNeeds returns what tells the files without which ssh fails as its message says. Nil: it is no such message.
func sshNeeds(lower []byte) (needs func(base string) bool) {
	for _, m := range sshMessages {
		if bytes.Contains(lower, []byte(m.text)) {
			return m.needs
		}
	}
	return nil
}

// lacking returns the refusals of files without which ssh fails as its message says.
func (f *followed) lacking(text []byte) (reason []int) {
	needs := sshNeeds(bytes.ToLower(text))
	if needs == nil {
		return nil
	}
	for _, m := range f.met {
		lacks := !m.net && m.err == unix.ENOENT && path.Base(path.Dir(m.target)) == ".ssh" && needs(path.Base(m.target))
		if lacks && !slices.Contains(reason, m.index) {
			reason = append(reason, m.index)
		}
	}
	return reason
}

// ssh adds the files of ~/.ssh without which ssh fails as its message says.
func (t *refusalTable) ssh(lower []byte) {
	needs := sshNeeds(lower)
	if needs == nil {
		return
	}
	for _, base := range append(sshKeys[:], "known_hosts") {
		if !needs(base) {
			continue
		}
		if t.names--; t.names < 0 || t.addPath(filepath.Join(host.Home(), ".ssh", base), unix.ENOENT, RefusedRead) {
			return
		}
	}
}
