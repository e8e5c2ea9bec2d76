//go:build linux

package nsrun

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/overlay"
)

// In the sandbox of an ordinary user only that user and the user's primary group exist. So an overlay cannot hold a new
// version of a file with another owner or group, and the kernel refuses to change such files.

// overflowText is what programs say of that (EOVERFLOW).
const overflowText = "value too large for defined data type"

// ownIDs are the ids of a user.
type ownIDs struct {
	uid, gid int
	groups   []int
}

// overlayRoots are the roots of the command's overlays in which not all files can be changed. Nil: there are none.
func (x *Execution) overlayRoots() (list []string) {
	if x.session == nil || os.Geteuid() == 0 || x.session.Info().Engine == overlay.EngineCopy {
		return nil
	}
	for _, r := range x.session.Roots() {
		list = append(list, r.Path)
	}
	return list
}

// findForeignOwners adds the files that the command could not change in an overlay, by its messages.
func (x *Execution) findForeignOwners(t *refusalTable) {
	roots := x.overlayRoots()
	if roots == nil {
		return
	}
	groups, _ := os.Getgroups()
	for _, text := range x.messageTexts() {
		t.foreignOwners(text, roots, ownIDs{os.Geteuid(), os.Getegid(), groups})
	}
}

// foreignOwners adds the files that a message says could not be changed in an overlay.
func (t *refusalTable) foreignOwners(output []byte, roots []string, own ownIDs) {
	for line := range bytes.Lines(output) {
		lower := bytes.ToLower(line)
		i := bytes.Index(lower, []byte(overflowText))
		if i < 0 || len(lower) != len(line) {
			continue
		}
		words := wordsOf(line[:i])
		slices.Reverse(words)
		for _, word := range append(words, wordsOf(line[i+len(overflowText):])...) {
			if t.names--; t.names < 0 {
				return
			}
			if r, ok := t.foreignOwner(word, roots, own); ok {
				t.add(r)
				break
			}
		}
	}
}

func wordsOf(message []byte) []string {
	return strings.FieldsFunc(quotes.Replace(string(message)), func(r rune) bool { return strings.ContainsRune(" \t\n':,()[]", r) })
}

// foreignOwner is the refusal to change a file that a word names, or to make it in its directory.
func (t *refusalTable) foreignOwner(word string, roots []string, own ownIDs) (r Refusal, ok bool) {
	name := filepath.Clean(word)
	if !filepath.IsAbs(word) {
		name = filepath.Join(t.dir, word)
	}
	var st unix.Stat_t
	err := unix.Lstat(name, &st)
	if err == unix.ENOENT && strings.Contains(word, "/") {
		name = filepath.Dir(name)
		err = unix.Lstat(name, &st)
	}
	inside := slices.ContainsFunc(roots, func(root string) bool { return paths.Inside(name, root) })
	uid, gid := int(st.Uid), int(st.Gid)
	if err != nil || !inside || uid == own.uid && gid == own.gid {
		return r, false
	}
	whose := fmt.Sprintf("group %d", gid)
	if uid != own.uid {
		whose = fmt.Sprintf("user %d", uid)
	}
	r = Refusal{Kind: RefusedWrite, Op: string(RefusedWrite), Target: name, Rule: "owner", Count: 1,
		Why: "it belongs to " + whose + ", which the sandbox does not have, so an overlay can hold no new version of it"}
	switch {
	case uid == own.uid && slices.Contains(own.groups, gid):
		r.Flag = "--engine copy"
	case uid == own.uid:
		r.Flag = "--direct" // a commit could not give a new version that group
	}
	return r, true
}
