//go:build linux

package overlay

import (
	"encoding/binary"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// TestRemoveClosed: no file of a session is open when the session is removed. On NFS and FUSE an open file stays in its
// directory under another name, so the directory cannot be removed.
func TestRemoveClosed(t *testing.T) {
	for name, remove := range map[string]func(s *Session) error{
		"Remove": (*Session).Remove,
		"Clean": func(s *Session) error {
			id, dir := s.ID(), filepath.Dir(s.Info().Dir)
			if err := s.Close(); err != nil {
				return err
			}
			for _, err := range Clean(dir, CleanOptions{Sessions: []string{id}}) {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) { removeClosed(t, remove) })
	}
}

func removeClosed(t *testing.T, remove func(s *Session) error) {
	testenv.Leaks(t)
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "state/", "project/", "project/a")
	state := filepath.Join(dir, "state", "sessions")
	s, err := Create(Options{Roots: []string{filepath.Join(dir, "project")}, Dir: state})
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	const closes = unix.IN_CLOSE_WRITE | unix.IN_CLOSE_NOWRITE
	if _, err := unix.InotifyAddWatch(fd, s.Info().Dir, closes|unix.IN_DELETE); err != nil {
		t.Fatal(err)
	}
	if err := remove(s); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64<<10)
	n, err := unix.Read(fd, buf)
	if err != nil {
		t.Fatal(err)
	}
	var deleted []string
	lock := false
	for b := buf[:n]; len(b) > 0; {
		mask, size := binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint32(b[12:])
		name := unix.ByteSliceToString(b[unix.SizeofInotifyEvent:][:size])
		b = b[unix.SizeofInotifyEvent+size:]
		switch {
		case mask&unix.IN_DELETE != 0:
			deleted = append(deleted, name)
		case mask&closes != 0 && mask&unix.IN_ISDIR == 0 && slices.Contains(deleted, name):
			t.Errorf("%s was open when it was removed", name)
		case mask&closes != 0 && name == "lock":
			lock = true
		}
	}
	if !lock || !slices.Contains(deleted, "lock") {
		t.Errorf("removed is %q, the lock was closed: %v", deleted, lock)
	}
}
