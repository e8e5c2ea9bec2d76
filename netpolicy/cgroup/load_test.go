//go:build linux

package cgroup

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/netpolicy"
)

// TestRefused: for a caller without the right to load programs, the error says what is needed.
func TestRefused(t *testing.T) {
	testenv.Leaks(t)
	testenv.NeedUser(t)
	p, err := Load()
	if err == nil {
		_ = p.Close()
		t.Fatal("an ordinary user loaded the programs")
	}
	e, ok := errors.AsType[*netpolicy.Error](err)
	if !ok || !errors.Is(err, os.ErrPermission) || !strings.Contains(e.Error(), "root") {
		t.Errorf("got %v", err)
	}
}

// TestOlder: the programs do without what older kernels do not have.
func TestOlder(t *testing.T) {
	testenv.Leaks(t)
	testenv.NeedRoot(t)
	var m maps
	for i := range m {
		m[i].fd = -1
	}
	defer m.close()
	if err := m.create(); err != nil {
		testenv.Skip(t, "bpf", err.Error())
	}
	for i := range allPrograms {
		fd, err := loadProgram(&allPrograms[i], &m, true)
		if err != nil {
			t.Errorf("%s: %v", allPrograms[i].name, err)
		}
		fd.Close()
	}
	text := []byte("\x85\x00\x00\x00\xbb\x00\x00\x00\x18\x01\x00\x00\x85\x00\x00\x00\x85\x00\x00\x00\xbb\x00\x00\x00\x85\x00\x00\x00\x05\x00\x00\x00")
	older(text)
	want := "\xb7\x00\x00\x00\x00\x00\x00\x00\x18\x01\x00\x00\x85\x00\x00\x00\x85\x00\x00\x00\xbb\x00\x00\x00\x85\x00\x00\x00\x05\x00\x00\x00"
	if string(text) != want {
		t.Errorf("got  %x\nwant %x", text, want)
	}
}
