//go:build linux

package overlay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/overlay/internal/store"
)

// fullInput is what the helper for full disks reads from standard input.
type fullInput struct {
	Dir   string // a directory in which tmpfs may be mounted
	Small string // what is small: "project" or "state"
	Mount bool   // the helper mounts it; false: it is mounted, with a quota
	Many  bool   // many small files, instead of few large ones
}

// fullDisk commits more than the disk has room for, and when it has room once more. It
// runs in a process of its own, where it may mount.
func fullDisk() error {
	unix.Umask(0o022)
	var in fullInput
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		return err
	}
	small := filepath.Join(in.Dir, in.Small)
	if in.Mount {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		size := "size=2m,mode=700"
		if in.Small == "state" { // what the session wrote is there too
			size = "size=8m,mode=700"
		}
		if err := unix.Mount("small", small, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, size); err != nil {
			return err
		}
	}
	root := filepath.Join(in.Dir, "project", "p")
	large, count := 1<<20, 3
	if in.Many {
		large, count = 4096, 700
	}
	was, text := bytes.Repeat([]byte("old "), 1000), bytes.Repeat([]byte("new "), large/4)
	if err := os.MkdirAll(filepath.Join(root, "d"), 0o755); err != nil {
		return err
	}
	for i := range min(count, 20) {
		if err := os.WriteFile(filepath.Join(root, "d", fmt.Sprint(i)), was, 0o644); err != nil {
			return err
		}
	}
	var tick int64
	if err := age(root, &tick); err != nil {
		return err
	}
	before := view{}
	if err := takeView(before, "0", root, ""); err != nil {
		return err
	}
	s, err := Create(Options{Roots: []string{root}, Dir: filepath.Join(in.Dir, "state", "s")})
	if err != nil {
		return err
	}
	defer s.Close()
	up := filepath.Join(s.Roots()[0].Upper, "d")
	if err := os.MkdirAll(up, 0o755); err != nil { // a copy has it
		return err
	}
	for i := range count {
		if err := os.WriteFile(filepath.Join(up, fmt.Sprint(i)), text, 0o644); err != nil {
			return fmt.Errorf("the session's own files: %w", err)
		}
	}
	if err := s.Collect(context.Background()); err != nil { // compares a copy
		return err
	}
	if in.Small == "state" {
		// The journal, and what is backed up, have no room.
		f, err := os.Create(filepath.Join(small, "ballast"))
		if err != nil {
			return err
		}
		for err == nil {
			_, err = f.Write(text[:4096])
		}
		f.Close()
	}
	first := s.CommitWith(context.Background(), CommitOptions{AllowSpecial: true})
	after := view{}
	if err := takeView(after, "0", root, ""); err != nil {
		return err
	}
	full := errors.Is(first, unix.ENOSPC) || errors.Is(first, unix.EDQUOT)
	if first != nil {
		if !full || errors.As(first, new(*CommitError)) {
			return fmt.Errorf("the commit: %w", first)
		}
		if list := (compared{got: after, want: before}).differences(); len(list) > 0 {
			return fmt.Errorf("%w, and yet\n%s", first, strings.Join(list, "\n"))
		}
		if s.State() != Kept {
			return fmt.Errorf("%w, and the session is %v", first, s.State())
		}
		// Nothing else went wrong, and nothing is left for the next command to take back.
		if errors.Is(first, unix.ENOENT) {
			return fmt.Errorf("the commit's end: %w", first)
		}
		left, err := os.ReadDir(filepath.Join(in.Dir, "state", "s", store.PendingName))
		if err != nil || len(left) > 0 {
			return fmt.Errorf("%w, and to be looked after is still %v, %w", first, left, err)
		}
	} else if in.Small == "project" {
		return errors.New("the disk was large enough")
	}
	fmt.Printf("first: %v\n", first)
	// With room, it works.
	if err := os.RemoveAll(filepath.Join(small, "ballast")); err != nil {
		return err
	}
	if in.Mount {
		if err := unix.Mount("small", small, "tmpfs", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, "size=50m"); err != nil {
			return err
		}
	} else if in.Small == "project" {
		return nil // nobody gives us more
	}
	if first != nil {
		if err := s.CommitWith(context.Background(), CommitOptions{AllowSpecial: true}); err != nil {
			return fmt.Errorf("with room: %w", err)
		}
	}
	for i := range count {
		if b, err := os.ReadFile(filepath.Join(root, "d", fmt.Sprint(i))); err != nil || !bytes.Equal(b, text) {
			return fmt.Errorf("file %d: %d bytes, %w", i, len(b), err)
		}
	}
	return nil
}

// TestAttack33Full: a disk that is full, or a quota that is used up, in the middle of a
// commit, leaves the project as it was.
func TestAttack33Full(t *testing.T) {
	testenv.Leaks(t)
	for _, small := range []string{"project", "state"} {
		for _, many := range []bool{false, true} {
			t.Run(fmt.Sprintf("no space for the %s, many %v", small, many), func(t *testing.T) {
				dir := testenv.Dir(t)
				testenv.Tree(t, dir, "project/", "state/")
				runFull(t, fullInput{Dir: dir, Small: small, Mount: true, Many: many}, userNamespace())
			})
		}
	}
}

// TestAttack33Quota is TestAttack33Full with a quota.
func TestAttack33Quota(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.Leaks(t)
	for _, many := range []bool{false, true} {
		t.Run(fmt.Sprintf("many %v", many), func(t *testing.T) {
			dir := testenv.Dir(t)
			testenv.Tree(t, dir, "project/", "state/")
			small := filepath.Join(dir, "project")
			if err := unix.Mount("small", small, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "usrquota,usrquota_block_hardlimit=2m,size=50m,mode=777"); err != nil {
				testenv.Skip(t, "tmpfs-quota", err.Error())
			}
			defer func() {
				if err := unix.Unmount(small, 0); err != nil {
					t.Error(err)
				}
			}()
			if err := os.Chown(filepath.Join(dir, "state"), 65534, 65534); err != nil {
				t.Fatal(err)
			}
			runFull(t, fullInput{Dir: dir, Small: "project", Many: many}, &syscall.SysProcAttr{
				Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: syscall.SIGKILL})
		})
	}
}

func runFull(t *testing.T, in fullInput, attr *syscall.SysProcAttr) {
	t.Helper()
	input, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Open("/proc/self/exe") // another user may not reach it by path
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	c := exec.Command("/proc/self/fd/3")
	c.ExtraFiles = []*os.File{exe}
	c.Env = append(os.Environ(), helperEnv+"=full")
	c.Stdin, c.SysProcAttr = bytes.NewReader(input), attr
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		testenv.Skip(t, string(features.UserNamespaces), err.Error())
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
		return
	}
	t.Logf("%s", out)
}
