//go:build linux

package store

import (
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// TestRootIs: a root is the directory that the session was made for, on a disk with another number too.
func TestRootIs(t *testing.T) {
	m, err := DecodeMeta([]byte(`{"version":1,"roots":[{"path":"/p","ino":128,"disk":66306,"birth":5},{"path":"/q","ino":2,"disk":9}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		root int
		ino  uint64
		disk tree.Disk
		is   bool
	}{
		{0, 128, tree.Disk{ID: 66306, Birth: 5}, true},
		{0, 128, tree.Disk{ID: 1, Birth: 5}, true},
		{0, 128, tree.Disk{ID: 1, Birth: 6}, false},
		{0, 128, tree.Disk{ID: 1}, false},
		{0, 129, tree.Disk{ID: 66306, Birth: 5}, false},
		{1, 2, tree.Disk{ID: 9}, true},
		{1, 2, tree.Disk{ID: 1, Birth: 5}, false},
	} {
		if is := m.Roots[tt.root].is(tt.ino, tt.disk); is != tt.is {
			t.Errorf("%+v: %v", tt, is)
		}
	}
}

func FuzzDecodeMeta(f *testing.F) {
	f.Add([]byte(`{"version":1,"created":"2006-01-02T15:04:05Z","state":"kept","roots":[{"path":"/p","ino":1}]}`))
	f.Add([]byte(`{"version":1,"state":"committed","roots":[{"path":{"bytes":"L/8="}}],"settled":[{"root":0,"path":"a/b","lower":1}]}`))
	f.Add([]byte(`{"version":1,"roots":[{"path":"/p"}],"settled":[{"root":7,"path":"../x"}]}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := DecodeMeta(data)
		if err != nil {
			return
		}
		for _, r := range m.Roots {
			if !filepath.IsAbs(string(r.Path)) || filepath.Clean(string(r.Path)) != string(r.Path) {
				t.Errorf("root %q", r.Path)
			}
		}
		for _, s := range m.Settled {
			if s.Root < 0 || s.Root >= len(m.Roots) || !filepath.IsLocal(string(s.Path)) {
				t.Errorf("settled %+v", s)
			}
		}
	})
}
