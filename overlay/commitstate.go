//go:build linux

package overlay

import (
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/store"
	"github.com/nsrun/nsrun/overlay/internal/tree"
	"github.com/nsrun/nsrun/overlay/internal/tx"
)

// A commit is one call of CommitWith.
type commit struct {
	s       *Session
	o       CommitOptions
	nodes   []node // what was chosen, in path order
	dropped []node // what the project's version was preferred for
	held    []Change
	full    bool // nothing else is left in the session
	alone   bool // no other session stands on it
	layers  []tx.Side
	plain   []bool // by root: its file system holds files and directories alone
	ledger  tx.Ledger
	kept    map[store.Place]baseEntry // what the project had when the command had ended; nil: not read
	account bool                      // that was noted at all
	arrived *arrivals
	deletes bool // something was deleted, or moved, in the session
	twins   []map[tree.Inode]tree.Twin
	below   map[store.Place]trace // of the commits of the session that this one stands on
	files   map[uint64]int64      // Ledger.Files of these
	taken   map[store.Place]bool  // what was chosen; nil: not made yet
	chosen  [][]store.Place       // by choice: what it means
	asked   []bool                // by choice: it means something
	left    map[string]bool       // objects of git that were not chosen, see gitObject

	turn  *turn       // nil before find
	runs  *runsFinder // the same
	tx    *tx.Tx
	write *tx.Writer
}

func newCommit(s *Session, o CommitOptions) *commit {
	c := &commit{s: s, o: o}
	c.arrived = &arrivals{touch: c.touched, sides: func(root int) (up, low tree.Tree, err error) {
		return c.layers[root].Up, c.layers[root].Low, nil
	}}
	return c
}

func (c *commit) close() {
	if c.runs != nil {
		c.runs.close()
	}
	if c.write != nil {
		c.write.Close()
	}
	for i := range c.layers {
		c.layers[i].Close()
	}
	if c.tx != nil {
		c.tx.Close()
	}
	if c.turn != nil {
		c.turn.close()
	}
}

func (c *commit) abs(at store.Place) string { return filepath.Join(c.s.roots[at.Root].Path, at.Path) }

func (c *commit) changes() (list []Change) { return changesOf(c.nodes) }

func changesOf(nodes []node) (list []Change) {
	for _, n := range nodes {
		if !n.TimeOnly {
			list = append(list, n.Change)
		}
	}
	return list
}

func changesIn(nodes []node) (n int) {
	for _, x := range nodes {
		if !x.TimeOnly {
			n++
		}
	}
	return n
}

// A trace is what a commit of the session below left at a place.
type trace struct {
	made  tx.Ident  // zero: nothing
	touch tx.Retime // zero Ino: nothing
}

// holds reports whether st is what the commit left.
func (tr trace) holds(st tree.Stat) bool {
	return tr.made.Unchanged(st) || tr.touch.Ino != 0 && tr.touch.Ino == st.Ino && tr.touch.After == tx.Moment(st.Mtime)
}

// traces reads what commits of the session that s is based on did to the project: that is no conflict.
func (c *commit) traces() error {
	c.below, c.files = map[store.Place]trace{}, map[uint64]int64{}
	return c.tracesOf(c.s.meta.On, 0)
}

// tracesOf reads those of the session on, and before them those of the session that on is based on.
func (c *commit) tracesOf(on string, depth int) error {
	if on == "" || depth > store.MaxStack {
		return nil
	}
	d, err := store.OpenOwned(c.s.state, on)
	if err == unix.ENOENT && depth > 0 {
		return nil // it ended long ago
	}
	if err != nil {
		return err
	}
	defer d.Close()
	m, err := store.ReadMeta(d)
	if err != nil {
		return err
	}
	if err := c.tracesOf(m.On, depth+1); err != nil {
		return err
	}
	for _, f := range m.Files {
		c.files[f.Ino] = f.Ctime
	}
	for _, n := range m.Done {
		data, err := d.ReadFile(tx.Name+"/"+strconv.Itoa(n)+"/"+tx.JournalName, store.MetaMost)
		if err != nil {
			return err
		}
		j, err := tx.DecodeJournal(data, len(m.Roots))
		if err != nil {
			return err
		}
		c.addTraces(m, j)
	}
	return nil
}

// addTraces adds what a transaction of the session with the data m did.
func (c *commit) addTraces(m *store.Meta, j *tx.Journal) {
	// The roots are those of the session below, or some of them.
	at := func(root int, p store.Text) (store.Place, bool) {
		i, ok := c.s.meta.RootOf(m.Roots[root].Path)
		return store.Place{Root: i, Path: string(p)}, ok
	}
	for _, n := range j.Nodes {
		if pl, ok := at(n.Root, n.Path); ok && n.New.Ino != 0 {
			c.below[pl] = trace{made: n.New}
		}
	}
	for _, a := range j.Attrs {
		n := j.Nodes[a.Node]
		if pl, ok := at(n.Root, n.Path); ok {
			id := n.Old
			id.Mode, id.UID, id.GID = id.Mode&unix.S_IFMT|a.After.Mode, a.After.UID, a.After.GID
			c.below[pl] = trace{made: id}
		}
	}
	for _, r := range j.Times {
		if pl, ok := at(r.Root, r.Path); ok {
			tr := c.below[pl]
			tr.touch = r
			c.below[pl] = tr
		}
	}
}

// changed reports whether another program changed the project's object st, or put it there, since the session began.
func (c *commit) changed(at store.Place, st tree.Stat) bool {
	c.readKept()
	return c.differs(at, st, c.arrived.above(at))
}

// touched reports whether somebody else changed the project's object st itself.
func (c *commit) touched(at store.Place, st tree.Stat) bool { return c.differs(at, st, false) }

func (c *commit) differs(at store.Place, st tree.Stat, came bool) bool {
	if c.tx != nil {
		st.Ctime = c.tx.Doors.CTimes.Before(at, st.Ctime)
	}
	if st.Ctime <= c.s.meta.Began() && !came {
		return false
	}
	if own, ok := c.ledger.At[at]; ok && own.Lower == st.Ctime {
		return false
	}
	if !st.IsDir() && (c.ledger.Files[st.Ino] == st.Ctime || c.files[st.Ino] == st.Ctime) {
		return false
	}
	return !c.below[at].holds(st)
}

// entry tells what was kept of the project's object at a place.
func (c *commit) entry(at store.Place) (baseEntry, bool) {
	c.readKept()
	e, ok := c.kept[at]
	return e, ok
}

func (c *commit) readKept() {
	if c.kept != nil {
		return
	}
	var err error
	c.kept, c.arrived.dirs, err = c.s.known()
	if c.account = err == nil && c.kept != nil; !c.account {
		c.kept = map[store.Place]baseEntry{}
	}
}

// base reads the version of a file that both sides began with, if it was kept.
func (c *commit) base(at store.Place) ([]byte, bool, error) {
	e, _ := c.entry(at)
	return c.s.readBase(e)
}
