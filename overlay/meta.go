//go:build linux

package overlay

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

// A metaState is what became of a session, as it is stored.
type metaState string

const (
	stateKept      metaState = "kept"      // its changes are there
	stateCommitted metaState = "committed" // all of its changes are in the project
	stateDiscarded metaState = "discarded" // its changes were thrown away
)

// A metaEngine is a way to keep apart what is written, as it is stored.
type metaEngine string

const (
	engineOverlay metaEngine = "overlay" // an upper directory in the session's
	engineTmpfs   metaEngine = "tmpfs"   // one on a tmpfs, stored when the command has ended
	engineCopy    metaEngine = "copy"    // a copy of the project, compared when the command has ended
)

const (
	metaName    = "session.json"
	metaVersion = 1
	// metaMost bounds the file, in bytes: a partial commit of some hundred
	// thousand paths fits.
	metaMost = 256 << 20
)

// meta is the content of a session's meta file.
type meta struct {
	Version int        `json:"version"`
	Created time.Time  `json:"created"` // by the clock that stamps files
	Command []rawText  `json:"command,omitempty"`
	State   metaState  `json:"state"`
	Roots   []metaRoot `json:"roots"`
	Settled []settled  `json:"settled,omitempty"`

	Files  []settledFile `json:"files,omitempty"`
	On     string        `json:"on,omitempty"`     // the session below; empty: the project
	Engine metaEngine    `json:"engine,omitempty"` // missing: engineOverlay

	// Done are the transactions that were done and not taken back, in order. What
	// stands in a directory tx/N and not here never was.
	Done []int `json:"done,omitempty"`

	// Thrown says that what was written is still there though the session is Discarded.
	Thrown bool `json:"thrown,omitempty"`

	// Dropped are the drops that were not taken back, in order.
	Dropped []dropped `json:"dropped,omitempty"`
}

// metaRoot is a root, and how its upper directory looked when it was made: the
// sandboxed command may change the root directory itself.
type metaRoot struct {
	Path rawText `json:"path"`
	Ino  uint64  `json:"ino"`
	Mode uint32  `json:"mode"`
	UID  uint32  `json:"uid"`
	GID  uint32  `json:"gid"`

	// Disk tells one file system from another (statfs(2), f_type and f_fsid): another
	// one may be mounted there. Zero: it is not known.
	Disk uint64 `json:"disk,omitempty"`
}

// check fails if the directory h is not the one that the session was made for.
func (r metaRoot) check(h *tree.Handle) error {
	st, err := h.Stat()
	if err != nil {
		return err
	}
	disk, err := tree.DiskOf(h)
	if err == nil && (st.Ino != r.Ino || r.Disk != 0 && disk != r.Disk) {
		err = errors.New(whyReplaced)
	}
	return err
}

// settled is written for each path that a partial commit dealt with: the
// project's object there has a new ctime that is our own doing and no conflict,
// and the session's object there is no change any more.
type settled struct {
	Root int     `json:"root"` // index into Roots
	Path rawText `json:"path"`
	// Lower is the ctime of the project's object, in nanoseconds since 1970.
	// Zero: there is none.
	Lower int64 `json:"lower,omitempty"`
	// Upper is the ctime of the session's object. Zero: there is none.
	Upper int64 `json:"upper,omitempty"`
	// Done says that the session's object was committed. False: only the
	// project's ctime is ours, as after a commit that was taken back.
	Done bool `json:"done,omitempty"`
}

// settledFile is written for each file of the project with several names of which a
// commit moved one: its ctime is our own doing, whatever name it is found under.
type settledFile struct {
	Ino   uint64 `json:"ino"`
	Ctime int64  `json:"ctime"` // nanoseconds since 1970
}

// decodeMeta reads a meta file's content and checks everything that is used as
// a path or an index later.
func decodeMeta(data []byte) (*meta, error) {
	var m meta
	if err := strictJSON(data, &m); err != nil {
		return nil, err
	}
	if m.Version != metaVersion {
		return nil, fmt.Errorf("version %d of the session's data is not known to this program", m.Version)
	}
	if len(m.Roots) == 0 {
		return nil, errors.New("the session has no roots")
	}
	if m.On != "" && !isName(m.On) {
		return nil, fmt.Errorf("not a session: %q", m.On)
	}
	switch m.State {
	case "":
		m.State = stateKept
	case stateKept, stateCommitted, stateDiscarded:
	default:
		return nil, fmt.Errorf("no such state: %q", m.State)
	}
	switch m.Engine {
	case "":
		m.Engine = engineOverlay
	case engineOverlay, engineTmpfs, engineCopy:
	default:
		return nil, fmt.Errorf("no such engine: %q", m.Engine)
	}
	for _, r := range m.Roots {
		p := string(r.Path)
		if !filepath.IsAbs(p) || filepath.Clean(p) != p || strings.ContainsRune(p, 0) || p == "/" {
			return nil, fmt.Errorf("not a root: %q", p)
		}
	}
	for _, s := range m.Settled {
		if err := checkPlace(s.Root, string(s.Path), len(m.Roots)); err != nil {
			return nil, err
		}
	}
	for _, d := range m.Dropped {
		if err := d.check(len(m.Roots)); err != nil {
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

// readMeta reads the meta file of the session directory dir.
func readMeta(dir *tree.Handle) (*meta, error) {
	data, err := dir.ReadFile(metaName, metaMost)
	if err == unix.EFBIG {
		err = errors.New("not a session's data")
	}
	if err != nil {
		return nil, err
	}
	return decodeMeta(data)
}

// writeFirst writes the data of a session that has no name yet, and so no reader. With
// over there is a file already, which is written over: a new one takes the file system
// longer.
func writeFirst(dir *tree.Handle, m *meta, over bool) error {
	if !over {
		_, err := writeMeta(dir, m, nil)
		return err
	}
	data, err := m.encode()
	if err != nil {
		return err
	}
	f, err := dir.Open(metaName, unix.O_WRONLY|unix.O_NOFOLLOW)
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
func (m *meta) encode() ([]byte, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(data) >= metaMost {
		return nil, fs.ErrInvalid
	}
	return append(data, '\n'), nil
}

// writeMeta replaces the meta file of the session directory dir, and reports whether
// it did: an error may be about what comes after that. Where there is a flusher, all that
// it has is on disk before that, and the meta file is when writeMeta returns.
func writeMeta(dir *tree.Handle, m *meta, before *tree.Flusher) (written bool, err error) {
	data, err := m.encode()
	if err != nil {
		return false, err
	}
	if err := dir.ReplaceFile(metaName, data, before); err != nil {
		return false, err
	}
	if before == nil {
		return true, nil
	}
	return true, dir.FlushDir(".")
}

// dropped is one call of Drop, as it is stored.
type dropped struct {
	After int           `json:"after,omitempty"` // the last transaction in force; zero: none
	Ended bool          `json:"ended,omitempty"` // nothing was left after it
	Paths []droppedPath `json:"paths"`
}

// droppedPath is what was settled at a path, and is since.
type droppedPath struct {
	Was *settled `json:"was,omitempty"` // nil: nothing
	Now settled  `json:"now"`
}

// check fails where a path could lead out of the roots.
func (d dropped) check(roots int) error {
	for _, p := range d.Paths {
		if err := checkPlace(p.Now.Root, string(p.Now.Path), roots); err != nil {
			return err
		}
	}
	return nil
}

// lastTx is the last transaction in force; zero: there is none.
func (m *meta) lastTx() int {
	if len(m.Done) == 0 {
		return 0
	}
	return m.Done[len(m.Done)-1]
}

// rootOf returns the number of the root with this path.
func (m *meta) rootOf(path rawText) (int, bool) {
	for i, r := range m.Roots {
		if r.Path == path {
			return i, true
		}
	}
	return 0, false
}
