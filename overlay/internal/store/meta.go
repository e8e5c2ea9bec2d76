//go:build linux

package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A State is what became of a session, as it is stored.
type State string

const (
	Kept      State = "kept"      // its changes are there
	Committed State = "committed" // all of its changes are in the project
	Discarded State = "discarded" // its changes were thrown away
)

// An Engine is a way to keep writes apart from the project, as it is stored.
type Engine string

const (
	Overlay Engine = "overlay" // an upper directory in the session's
	Tmpfs   Engine = "tmpfs"   // one on a tmpfs, stored when the command has ended
	Copy    Engine = "copy"    // a copy of the project, compared when the command has ended
)

const (
	MetaName    = "session.json"
	MetaVersion = 1
	// MetaMost bounds the file, in bytes: a partial commit of some hundred thousand paths fits.
	MetaMost = 256 << 20
)

// Meta is the content of a session's meta file.
type Meta struct {
	Version int       `json:"version"`
	Created time.Time `json:"created"`         // by the clock that stamps files
	Since   int64     `json:"since,omitempty"` // see Began; 0: Created
	Command []Text    `json:"command,omitempty"`
	State   State     `json:"state"`
	Roots   []Root    `json:"roots"`
	Settled []Settled `json:"settled,omitempty"`

	Files  []SettledFile `json:"files,omitempty"`
	On     string        `json:"on,omitempty"`     // the session below; empty: the project
	Engine Engine        `json:"engine,omitempty"` // missing: Overlay

	// Protect are patterns of files that a commit takes only if they are named.
	Protect []Text `json:"protect,omitempty"`

	// Done are the transactions that were done and not taken back, in order. A
	// transaction that has a directory tx/N, but is not here, is not in force.
	Done []int `json:"done,omitempty"`

	// Thrown says that the session is Discarded, but its changes are still there.
	Thrown bool `json:"thrown,omitempty"`

	// Dropped are the drops that were not taken back, in order.
	Dropped []Dropped `json:"dropped,omitempty"`
}

// Began is the time, in nanoseconds since 1970, after which the ctime is of what was changed in the project since the
// session began.
func (m *Meta) Began() int64 {
	if m.Since != 0 {
		return m.Since
	}
	return m.Created.UnixNano()
}

// Root is a root, and the attributes of its upper directory when it was made, because
// the sandboxed command may change the root directory itself.
type Root struct {
	Path Text   `json:"path"`
	Ino  uint64 `json:"ino"`
	Mode uint32 `json:"mode"`
	UID  uint32 `json:"uid"`
	GID  uint32 `json:"gid"`

	// Disk and Birth identify the file system (tree.Disk), because another one may be mounted there.
	Disk  uint64 `json:"disk,omitempty"`
	Birth int64  `json:"birth,omitempty"`
}

// Check fails if the directory h is not the one that the session was made for.
func (r Root) Check(h *tree.Handle) error {
	st, err := h.Stat()
	if err != nil {
		return err
	}
	disk, err := tree.DiskOf(h)
	if err == nil && !r.is(st.Ino, disk) {
		err = errors.New(WhyReplaced)
	}
	return err
}

func (r Root) is(ino uint64, disk tree.Disk) bool {
	return ino == r.Ino && disk.Is(tree.Disk{ID: r.Disk, Birth: r.Birth})
}

// Settled is written for each path of a partial commit. The commit caused the new ctime of the project's object, so it
// is no conflict, and the session's object is no longer a change.
type Settled struct {
	Root int  `json:"root"` // index into Roots
	Path Text `json:"path"`
	// Lower is the ctime of the project's object, in nanoseconds since 1970. Zero: there is none.
	Lower int64 `json:"lower,omitempty"`
	// Upper is the ctime of the session's object. Zero: there is none.
	Upper int64 `json:"upper,omitempty"`
	// Done says that the session's object was committed. False: nsrun only caused
	// the project's ctime, as after a commit that was taken back.
	Done bool `json:"done,omitempty"`
}

// SettledFile is written for each file of the project with several names of which a
// commit moved one. The commit caused its ctime, which all names have.
type SettledFile struct {
	Ino   uint64 `json:"ino"`
	Ctime int64  `json:"ctime"` // nanoseconds since 1970
}

// DecodeMeta reads a meta file's content and checks everything that is used as a path or an index later.
func DecodeMeta(data []byte) (*Meta, error) {
	var m Meta
	if err := StrictJSON(data, &m); err != nil {
		return nil, err
	}
	if m.Version != MetaVersion {
		return nil, fmt.Errorf("version %d of the session's data is not known to this program", m.Version)
	}
	if len(m.Roots) == 0 {
		return nil, errors.New("the session has no roots")
	}
	if m.On != "" && !IsName(m.On) {
		return nil, fmt.Errorf("not a session: %q", m.On)
	}
	switch m.State {
	case "":
		m.State = Kept
	case Kept, Committed, Discarded:
	default:
		return nil, fmt.Errorf("no such state: %q", m.State)
	}
	switch m.Engine {
	case "":
		m.Engine = Overlay
	case Overlay, Tmpfs, Copy:
	default:
		return nil, fmt.Errorf("no such engine: %q", m.Engine)
	}
	for _, r := range m.Roots {
		p := string(r.Path)
		if !filepath.IsAbs(p) || filepath.Clean(p) != p || strings.ContainsRune(p, 0) || p == "/" {
			return nil, fmt.Errorf("not a root: %q", p)
		}
	}
	for _, text := range m.Protect {
		if _, err := ParseProtected(string(text)); err != nil {
			return nil, err
		}
	}
	for _, s := range m.Settled {
		if err := CheckPlace(s.Root, string(s.Path), len(m.Roots)); err != nil {
			return nil, err
		}
	}
	for _, d := range m.Dropped {
		if err := d.Check(len(m.Roots)); err != nil {
			return nil, err
		}
	}
	for i, n := range m.Done {
		if n <= 0 || i > 0 && n <= m.Done[i-1] {
			return nil, fmt.Errorf("not a transaction: %d", n)
		}
	}
	return &m, nil
}

func ReadMeta(dir *tree.Handle) (*Meta, error) {
	m, err := readMeta(dir)
	return firstMeta(dir, m, err)
}

func readMeta(dir *tree.Handle) (*Meta, error) {
	data, err := dir.ReadFile(MetaName, MetaMost)
	if err == unix.EFBIG {
		err = errors.New("not a session's data")
	}
	if err != nil {
		return nil, err
	}
	return DecodeMeta(data)
}

// WriteFirst writes the data of a session that has no name yet, and so no reader. With
// over, it overwrites the file that is there, which is faster than making a new one.
func WriteFirst(dir *tree.Handle, m *Meta, over bool) error {
	if !over {
		_, err := WriteMeta(dir, m, nil)
		return err
	}
	data, err := m.encode()
	if err != nil {
		return err
	}
	f, err := dir.Open(MetaName, unix.O_WRONLY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := tree.WriteAll(f, data); err != nil {
		return err
	}
	return sys.Retry(func() error { return unix.Ftruncate(int(f.FD), int64(len(data))) })
}

// encode is what session.json holds.
func (m *Meta) encode() ([]byte, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(data) >= MetaMost {
		return nil, fs.ErrInvalid
	}
	return append(data, '\n'), nil
}

// WriteMeta replaces the meta file of the session directory dir. It reports whether it did
// that, because an error may be about the next step. If before is not nil, everything in it
// is on disk before the file is replaced, and the file is on disk when WriteMeta returns.
func WriteMeta(dir *tree.Handle, m *Meta, before *tree.Flusher) (written bool, err error) {
	data, err := m.encode()
	if err != nil {
		return false, err
	}
	if err := dir.ReplaceFile(MetaName, data, before); err != nil {
		return false, err
	}
	if before == nil {
		return true, nil
	}
	return true, dir.FlushDir(".")
}

// Dropped is one call of Drop, as it is stored.
type Dropped struct {
	After int           `json:"after,omitempty"` // the last transaction in force; zero: none
	Ended bool          `json:"ended,omitempty"` // nothing was left after it
	Paths []DroppedPath `json:"paths"`
}

// DroppedPath is what was settled at a path before a drop, and after it.
type DroppedPath struct {
	Was *Settled `json:"was,omitempty"` // nil: nothing
	Now Settled  `json:"now"`
}

// Check fails if a path could lead out of the roots.
func (d Dropped) Check(roots int) error {
	for _, p := range d.Paths {
		if err := CheckPlace(p.Now.Root, string(p.Now.Path), roots); err != nil {
			return err
		}
	}
	return nil
}

// LastTx is the last transaction in force; zero: there is none.
func (m *Meta) LastTx() int {
	if len(m.Done) == 0 {
		return 0
	}
	return m.Done[len(m.Done)-1]
}

func (m *Meta) RootOf(path Text) (int, bool) {
	for i, r := range m.Roots {
		if r.Path == path {
			return i, true
		}
	}
	return 0, false
}
