//go:build linux && !race

package differ

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// fixture is what every run finds in its directory.
var fixture = []string{
	"dir/a: alpha", "dir/sub/b: beta", "dir/inner => sub", "dir/deep/er/c: gamma",
	"other/o: omega", "empty/", "locked/in: x", "private/in: y",
	"file: file", "file2: another file", "ro: read-only", "unreadable: z", "long: " + strings.Repeat("0123456789", 500),
	"link => file", "dlink => dir", "abs => /etc", "dangling => nowhere", "loop => loop", "dotdot => ../..", "rooted => /dir",
	"script: #!/bin/sh\necho script \"$@\"\n", "noshebang: echo no shebang \"$0\" \"$@\"\n", "badshebang: #!/no/such/interpreter\n",
	"notexec: #!/bin/sh\n", "garbage: \x7fELF nonsense", "emptyexec",
	"lower1/one: 1", "lower1/both: from lower1", "lower1/d/x: x1", "lower2/two: 2", "lower2/both: from lower2", "lower2/d/y: y2",
	"upper/", "work/", "upper2/up: u", "work2/", "o,d:d\\x/f: odd name", "with space/f: blank",
	"home/.keep", "mnt/", "lock: lock",
}

// modes of files that are not 0644, of directories that are not 0755.
var modes = map[string]fs.FileMode{
	"script": 0o755, "noshebang": 0o755, "badshebang": 0o755, "garbage": 0o755, "emptyexec": 0o755,
	"ro": 0o444, "unreadable": 0, "locked": 0, "private": 0o700, "long": 0o640, "empty": 0o1777,
}

// place is the directory of the runs.
type place struct {
	t    testing.TB
	dir  string // the fixture, made again for each run
	in   string // its path within its file system
	devs string // the file systems that are mounted on the host
	who  *identity

	pristine result // what left notes of a new fixture
	used     bool   // the fixture is not known to be as new
}

func newPlace(t testing.TB, who *identity) *place {
	// Not where testenv has its own: other users have to get there.
	tmp, err := os.MkdirTemp(filepath.Join(bin(t), "tmp"), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(tmp); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, dir: filepath.Join(tmp, "w"), who: who}
	t.Cleanup(p.remove)
	p.used = true
	p.make()
	p.pristine = make(result)
	p.left(p.pristine)
	p.look()
	return p
}

func (p *place) look() {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		p.t.Fatal(err)
	}
	var devs []string
	longest := -1
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if strings.HasPrefix(f[4], p.dir+"/") {
			continue // numbers of what make mounts are used again
		}
		devs = append(devs, f[2])
		at := strings.TrimSuffix(f[4], "/")
		if rest, ok := strings.CutPrefix(p.dir, at+"/"); ok && len(at) >= longest {
			longest = len(at)
			p.in = filepath.Join(f[3], rest)
		}
	}
	slices.Sort(devs)
	p.devs = strings.Join(slices.Compact(devs), ",")
}

// make makes the fixture, if it is not as new. Root mounts something in it too.
func (p *place) make() {
	if !p.used {
		return
	}
	p.used = false
	p.remove()
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
	testenv.Tree(p.t, p.dir, fixture...)
	err := unix.Mkfifo(filepath.Join(p.dir, "fifo"), 0o644)
	for name, mode := range modes {
		err = errors.Join(err, unix.Chmod(filepath.Join(p.dir, name), uint32(mode.Perm())|uint32(mode&0o7000)))
	}
	if os.Geteuid() == 0 {
		if p.who.uid != 0 {
			err = errors.Join(err, filepath.WalkDir(p.dir, func(name string, _ fs.DirEntry, err error) error {
				return errors.Join(err, os.Lchown(name, p.who.uid, p.who.gid))
			}))
		}
		mnt := filepath.Join(p.dir, "mnt")
		err = errors.Join(err, unix.Mount("fixture", mnt, "tmpfs", unix.MS_NOEXEC, "mode=755"))
		for _, dir := range []string{"sub", "ro", "plain/x"} {
			err = errors.Join(err, os.MkdirAll(filepath.Join(mnt, dir), 0o755))
		}
		err = errors.Join(err, unix.Mount("fixture", filepath.Join(mnt, "sub"), "tmpfs", unix.MS_NOATIME, "mode=711"),
			unix.Mount("fixture", filepath.Join(mnt, "ro"), "tmpfs", unix.MS_RDONLY|unix.MS_NODEV|unix.MS_NOSUID, ""))
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) remove() {
	_ = unix.Unmount(filepath.Join(p.dir, "mnt"), unix.MNT_DETACH)
	_ = os.Chmod(filepath.Join(p.dir, "locked"), 0o700)
	if err := os.RemoveAll(p.dir); err != nil {
		// Something was made unreadable.
		_ = filepath.WalkDir(p.dir, func(name string, d fs.DirEntry, _ error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(name, 0o700)
			}
			return nil
		})
		if err := os.RemoveAll(p.dir); err != nil {
			p.t.Fatal(err)
		}
	}
}

// left notes the files of the fixture.
func (p *place) left(r result) {
	found := make(result)
	// A user has to be let in first.
	locked := filepath.Join(p.dir, "locked")
	var st unix.Stat_t
	if err := unix.Stat(locked, &st); err == nil && st.Mode&0o777 == 0 {
		_ = os.Chmod(locked, 0o700)
		defer os.Chmod(locked, 0)
		found["host.locked is"] = "locked"
	}
	err := filepath.WalkDir(p.dir, func(name string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(p.dir, name)
		key := "host." + rel
		var st unix.Stat_t
		if err := errors.Join(err, unix.Lstat(name, &st)); err != nil {
			found[key] = "error: " + err.Error()
			return nil
		}
		text := fmt.Sprintf("%#o %d:%d", st.Mode, st.Uid, st.Gid)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			to, _ := os.Readlink(name)
			text += " -> " + to
		case unix.S_IFREG:
			text += fmt.Sprintf(" size %d", st.Size)
			if b, err := os.ReadFile(name); err == nil {
				if len(b) > 200 {
					text += fmt.Sprintf(" sum %x", crc32.ChecksumIEEE(b))
				} else {
					text += fmt.Sprintf(" %q", b)
				}
			}
		}
		found[key] = text
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.used = !maps.Equal(found, p.pristine)
	maps.Copy(r, found)
}
