//go:build linux

package project

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
)

// TestUnbegunDatabase: where the disk was full when the database was made, it is made again. One that was in use and
// became as short is damaged.
func TestUnbegunDatabase(t *testing.T) {
	at := filepath.Join(t.TempDir(), "new")
	db, err := bbolt.Open(at, 0o600, nil)
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	begun, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	for _, n := range []int{0, 80, page, 2 * page, 3 * page, 4*page - 1} {
		p := newPlace(t)
		p.must(os.Mkdir(p.o.Dir, 0o700))
		p.must(os.WriteFile(filepath.Join(p.o.Dir, dbName), begun[:n], 0o600))
		if list := p.executions(Filter{}); len(list) != 0 {
			t.Errorf("%d bytes: %+v", n, list)
		}
		p.record(Execution{Command: []string{"make"}})
		p.must(p.Set(Permission{Action: Execute, Target: "x", Decision: Allow}))
		if list := p.executions(Filter{}); len(list) != 1 {
			t.Errorf("%d bytes: %+v", n, list)
		}
		p.whole()
		used := filepath.Join(p.o.Dir, dbName)
		p.must(os.Truncate(used, int64(max(n, page))))
		p.verified = false
		if err := p.Set(Permission{Action: Execute, Target: "y", Decision: Allow}); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes of one in use: %v", n, err)
		}
	}
}
