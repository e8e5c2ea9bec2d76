//go:build linux

package host

import (
	"slices"
	"testing"

	"github.com/nsrun/nsrun/internal/sys"
)

// table is what the kernel does with one bucket of its table of sockets: it lists some at a time, and goes on behind as
// many as it has listed. between is called when it does.
type table struct {
	sockets []sys.UnixSocket
	between func(t *table)
	lists   int
}

func (t *table) ask(do func(sys.UnixSocket)) error {
	const part = 2
	t.lists++
	for n := 0; n < len(t.sockets); t.between(t) {
		for range part {
			if n < len(t.sockets) {
				do(t.sockets[n])
				n++
			}
		}
	}
	return nil
}

// TestListSockets: a socket of the host is found although a command ends its own while the kernel lists them. The
// control is the kernel's list.
func TestListSockets(t *testing.T) {
	host := sys.UnixSocket{Ino: 9, Name: "/h", HasFile: true, FileIno: 99}
	own := func(n uint32) sys.UnixSocket { return sys.UnixSocket{Ino: n, HasFile: n%2 == 0, Name: "/own"} }
	still := func(*table) {}
	attack := func(t *table) {
		if t.sockets[0].Ino == 1 {
			t.sockets = t.sockets[1:]
		}
	}
	has := func(list []namedSocket) bool {
		return slices.Contains(list, namedSocket{host.Name, host.FileIno, host.FileDev})
	}
	sockets := []sys.UnixSocket{own(1), own(2), host, own(3)}

	control := table{slices.Clone(sockets), attack, 0}
	var once []namedSocket
	if _ = control.ask(func(u sys.UnixSocket) { once = append(once, namedSocket{u.Name, u.FileIno, u.FileDev}) }); has(once) {
		t.Fatal("the control: the first list has it")
	}
	busy := func(t *table) { t.sockets[0].Ino += 100 } // the first one ends, and a new one takes its place
	bound := false
	binds := func(t *table) { // binding the first one to a file moves it behind the others
		if !bound {
			bound = true
			moved := t.sockets[0]
			moved.HasFile = true
			t.sockets = append(t.sockets[1:], moved)
		}
	}
	for _, c := range []struct {
		name    string
		between func(*table)
		lists   int
	}{{"nothing ends", still, 2}, {"one ends", attack, 3}, {"one is bound", binds, 3}, {"they end all the time", busy, mostLists}} {
		kernel := table{slices.Clone(sockets), c.between, 0}
		list, err := listSockets(kernel.ask)
		if err != nil || !has(list) || kernel.lists != c.lists {
			t.Errorf("%s: %v, %v after %d lists", c.name, list, err, kernel.lists)
		}
	}
}
