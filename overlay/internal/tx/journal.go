//go:build linux

package tx

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A Journal is written before a transaction changes anything in the project. It has everything that is needed to finish
// the transaction or to take it back at any moment. Each of its parts is in one of two states, before or after. The
// inode numbers of both versions are known, so what is there tells the state, and no marks are needed. Going forward or
// backward can be interrupted anywhere, and be started again from there.
//
// One bit in the session's data (meta.Done) says whether a transaction was done. If it is
// set, the project has to be as after the transaction, else as before it.
type Journal struct {
	Version int      `json:"version"`
	Nodes   []Node   `json:"nodes"`
	Moves   []Move   `json:"moves"`
	Attrs   []Regard `json:"attrs,omitempty"`
	Times   []Retime `json:"times,omitempty"`
	Stays   []Stay   `json:"stays,omitempty"`
}

const (
	JournalName    = "journal"
	journalVersion = 1
	takenVersion   = 2 // a move has Taken
)

// kinds are the kinds that a Node can have.
var kinds = []string{"", "added", "modified", "deleted", "type"}

// Node is an object that the transaction deals with.
type Node struct {
	Kind  string     `json:"k,omitempty"` // of change; empty: only its time changes
	Root  int        `json:"r,omitempty"`
	Path  store.Text `json:"p"`
	New   Ident      `json:"n,omitzero"` // in the project afterwards; zero: nothing is there, or a directory that stays
	Old   Ident      `json:"o,omitzero"` // in the project before; zero: nothing was there
	Upper int64      `json:"c,omitempty"`

	// Below is how many objects were in an old directory, and Newest the latest ctime of
	// the files in it that have one name. Newest zero: not known.
	Below  int   `json:"b,omitempty"`
	Newest int64 `json:"w,omitempty"`

	// Clean says that nobody changed the old object after the session began.
	Clean bool `json:"l,omitempty"`

	// Staged is the digest of what is staged in the new object, if it is an index of git.
	Staged string `json:"g,omitempty"`

	// Runs is Change.Runs.
	Runs string `json:"e,omitempty"`

	// Marks are overlayfs' attributes that a taken object had.
	Marks map[string][]byte `json:"x,omitempty"`
}

// An Ident tells one object from another, and from what it was before somebody wrote
// to it. The zero ident is not an object.
type Ident struct {
	Ino   uint64 `json:"i,omitempty"`
	Mode  uint32 `json:"m,omitempty"` // with the type
	Size  int64  `json:"s,omitempty"` // zero for directories
	Mtime Moment `json:"t,omitzero"`  // zero for directories
	UID   uint32 `json:"u,omitempty"`
	GID   uint32 `json:"g,omitempty"`

	// Foreign says that somebody changed the object since, although its size and time are the same.
	Foreign bool `json:"f,omitempty"`
}

func identify(st tree.Stat) Ident {
	id := Ident{Ino: st.Ino, Mode: st.Mode, UID: st.UID, GID: st.GID}
	if !st.IsDir() {
		id.Size, id.Mtime = st.Size, Moment(st.Mtime)
	}
	return id
}

// is reports whether st is this object, whatever was done to it.
func (id Ident) is(st tree.Stat) bool {
	return id.Ino != 0 && id.Ino == st.Ino && id.Mode&unix.S_IFMT == st.Typ()
}

// same reports whether st is this object with the content it had.
func (id Ident) same(st tree.Stat) bool {
	return id.is(st) && !id.Foreign && (st.IsDir() || id.Size == st.Size && id.Mtime == Moment(st.Mtime))
}

// reused reports whether the new object has the inode number of the old one. Then somebody removed the old one since it
// was looked at, and the two cannot be told apart. ext4 reuses numbers at once.
func (n *Node) reused() bool { return n.New.Ino != 0 && n.New.Ino == n.Old.Ino }

// A Move puts an object into the project, takes one out of it, or both. The object that is
// not in the project is in a stage, under the move's number.
type Move struct {
	First int `json:"f"` // the nodes it deals with: Nodes[First:End]; the first is what is moved
	End   int `json:"e"`
	Stage int `json:"s,omitempty"` // zero: the transaction's own; else index+1 in stages

	// Taken says that the new object is not a copy but the session's own object, see take.go.
	Taken bool `json:"t,omitempty"`

	// Dir is set if nothing is moved: an empty directory is removed, or made again with
	// these attributes. If a project is on overlayfs, its directories cannot be renamed
	// (EXDEV, see overlayfs.rst), so the objects in them are moved one by one.
	Dir *Emptied `json:"d,omitempty"`
}

// Emptied is a directory that is removed when it is empty.
type Emptied struct {
	Access Access `json:"a"`
	Mtime  Moment `json:"t"`
}

// Regard is a change of the attributes of a directory that stays.
type Regard struct {
	Node   int    `json:"n"`
	Before Access `json:"b"`
	After  Access `json:"a"`

	// Base is what a root's attributes were compared with before. Nil: the directory is no root.
	Base *Access `json:"r,omitempty"`
}

// Access is who may do what with an object.
type Access struct {
	Mode   uint32            `json:"m"` // without the type
	UID    uint32            `json:"u"`
	GID    uint32            `json:"g"`
	Xattrs map[string][]byte `json:"x,omitempty"`
	Keep   bool              `json:"k,omitempty"` // the extended attributes stay as they are
}

// Retime is a new modification time for an object that stays: a directory whose entries
// changed, or an object of which the session changed only the time.
type Retime struct {
	Root   int        `json:"r,omitempty"`
	Path   store.Text `json:"p"`
	Ino    uint64     `json:"i"`
	Before Moment     `json:"b"`
	After  Moment     `json:"a"`
	Clean  bool       `json:"c,omitempty"` // nobody had changed the object since the session began
}

// A Stay is a name of a file that stays in the project while other names of the file were
// copied to the backup. Undo makes those as links to it again.
type Stay struct {
	Root int        `json:"r,omitempty"`
	Path store.Text `json:"p"`
	File Ident      `json:"f"`
	Copy store.Text `json:"c"` // below copies/
}

// A Stage is a directory in a project for a transaction's objects. It is needed if objects
// cannot be renamed between the project and the session's own directory.
type Stage struct {
	Root   int        `json:"root"`
	Dir    store.Text `json:"dir"` // relative to the root
	Name   string     `json:"name"`
	Before Moment     `json:"before"` // modification time of Dir
}

const StageMark = ".nsrun-"

// stages is written before any of them is made.
type stages struct {
	Version int     `json:"version"`
	Stages  []Stage `json:"stages"`
}

const stagesName = "stages"

// DecodeJournal reads a journal of a session with this number of roots. It checks everything
// that is used as a path or an index.
func DecodeJournal(data []byte, roots int) (*Journal, error) {
	var j Journal
	if err := store.StrictJSON(data, &j); err != nil {
		return nil, err
	}
	if j.Version != journalVersion && j.Version != takenVersion {
		return nil, fmt.Errorf("version %d of the journal is not known to this program", j.Version)
	}
	for _, n := range j.Nodes {
		if !slices.Contains(kinds, n.Kind) {
			return nil, fmt.Errorf("no such kind of change: %q", n.Kind)
		}
		if err := store.CheckPlace(n.Root, string(n.Path), roots); err != nil {
			return nil, err
		}
	}
	for _, m := range j.Moves {
		if m.First < 0 || m.End <= m.First || m.End > len(j.Nodes) || m.Stage < 0 {
			return nil, fmt.Errorf("no nodes from %d to %d", m.First, m.End)
		}
		if m.Taken && (m.Stage != 0 || j.Version != takenVersion) {
			return nil, errors.New("what is taken is in a stage")
		}
		if n := j.Nodes[m.First]; n.Path == "." || n.New.Ino == 0 && n.Old.Ino == 0 {
			return nil, fmt.Errorf("nothing to move: %q", n.Path)
		}
	}
	for _, a := range j.Attrs {
		if a.Node < 0 || a.Node >= len(j.Nodes) {
			return nil, fmt.Errorf("no node %d", a.Node)
		}
	}
	for _, s := range j.Stays {
		if err := cmp.Or(store.CheckPlace(s.Root, string(s.Path), roots), store.CheckPlace(0, string(s.Copy), 1)); err != nil {
			return nil, err
		}
	}
	for _, r := range j.Times {
		if err := store.CheckPlace(r.Root, string(r.Path), roots); err != nil {
			return nil, err
		}
	}
	return &j, nil
}

func decodeStages(data []byte, roots int) ([]Stage, error) {
	var s stages
	if err := store.StrictJSON(data, &s); err != nil {
		return nil, err
	}
	if s.Version != journalVersion {
		return nil, fmt.Errorf("version %d of the stages is not known to this program", s.Version)
	}
	for _, st := range s.Stages {
		if err := store.CheckPlace(st.Root, string(st.Dir), roots); err != nil {
			return nil, err
		}
		if !strings.HasPrefix(st.Name, StageMark) || strings.ContainsAny(st.Name, "/\x00") {
			return nil, fmt.Errorf("not a stage: %q", st.Name)
		}
	}
	return s.Stages, nil
}

// Unchanged reports whether st is this object, and nobody did anything to it.
func (id Ident) Unchanged(st tree.Stat) bool {
	return id.same(st) && id.Mode == st.Mode && id.UID == st.UID && id.GID == st.GID
}
