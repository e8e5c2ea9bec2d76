//go:build linux

package homelayer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestWroteHidden: if a command writes where nobody can list it, that is reported. The control writes where it can be
// counted.
func TestWroteHidden(t *testing.T) {
	testenv.Leaks(t)
	path := place(t)
	l, err := Take(path, "/p", filepath.Dir(filepath.Dir(path)), 0o700, true)
	if err != nil {
		t.Fatal(err)
	}
	defer release(t, l)
	testenv.Tree(t, l.Upper(), "d/f: 1234")
	if bytes, files, partial := l.Wrote(); bytes == 0 || files != 2 || partial {
		t.Errorf("the control: %d bytes, %d files, %t", bytes, files, partial)
	}
	if os.Geteuid() == 0 {
		return // who can list everything
	}
	if err := os.Chmod(l.Upper()+"/d", 0); err != nil {
		t.Fatal(err)
	}
	if _, files, partial := l.Wrote(); files != 1 || !partial {
		t.Errorf("%d files, %t", files, partial)
	}
	if err := os.Chmod(l.Upper()+"/d", 0o700); err != nil {
		t.Fatal(err)
	}
}
