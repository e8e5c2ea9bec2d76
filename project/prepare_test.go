//go:build linux

package project

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPrepare: Record writes to the database that Prepare opened while the command ran, even if the journal was moved
// into the database meanwhile. Only Record reports that a directory is not available.
func TestPrepare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := Open(Options{Dir: filepath.Join(dir, "state"), Cache: filepath.Join(dir, "cache")})
	defer r.Close()
	r.Prepare()
	other := Open(Options{Dir: filepath.Join(dir, "state"), Cache: filepath.Join(dir, "cache")})
	defer other.Close()
	for _, reg := range []*Registry{other, r} {
		if _, err := reg.Record(t.Context(), Execution{Command: []string{"true"}}, nil, nil); err != nil {
			t.Fatal(err)
		}
		if err := other.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for _, err := range r.Executions(Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d of 2 executions", n)
	}

	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	bad := Open(Options{Dir: filepath.Join(dir, "file"), Cache: filepath.Join(dir, "cache")})
	defer bad.Close()
	bad.Prepare()
	if _, err := bad.Record(t.Context(), Execution{Command: []string{"true"}}, nil, nil); err == nil {
		t.Error("no error where the directory is a file")
	}
}
