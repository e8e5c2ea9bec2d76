//go:build linux

package overlay

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// An op is one operation on files. Paths are keys of views: "0/a/b" is a/b in the first
// root.
type op struct {
	Do   string
	A, B string
	N    int64 // size, offset, mode or time
	Text string
}

func (o op) String() string {
	s := o.Do + " " + escape.Quote(o.A)
	if o.B != "" {
		s += " " + escape.Quote(o.B)
	}
	switch o.Do {
	case "mkdir", "chmod":
		s += fmt.Sprintf(" %04o", o.N)
	case "truncate", "pwrite", "utimes":
		s += fmt.Sprint(" ", o.N)
	}
	if len(o.Text) > 30 {
		return s + fmt.Sprintf(" %q*%d", o.Text[:4], len(o.Text)/4)
	}
	if o.Text != "" {
		s += fmt.Sprintf(" %q", o.Text)
	}
	return s
}

// What happened is what came of an op in the sandbox, so that it can be done to a plain
// copy in the same way.
type happened struct {
	Errno   unix.Errno
	Copied  bool // a rename was refused (EXDEV), and done as mv does it
	skipped bool
}

// A machine does operations in some directories. It follows links, but never out of
// the root.
type machine struct {
	roots []*tree.Handle
	weak  bool // modes matter
}

func newMachine(roots []string) (*machine, error) {
	m := &machine{}
	for _, r := range roots {
		h, err := tree.OpenAbs(r, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			m.close()
			return nil, err
		}
		m.roots = append(m.roots, h)
	}
	return m, nil
}

func (m *machine) close() {
	for _, h := range m.roots {
		h.Close()
	}
}

// split returns the root and the path in it.
func (m *machine) split(key string) (*tree.Handle, string) {
	i, rest, _ := strings.Cut(key, "/")
	return m.roots[i[0]-'0'], cmp.Or(rest, ".")
}

// open opens an object, by way of links that stay in the root.
func (m *machine) open(key string, flags int, mode uint64) (*tree.Handle, error) {
	top, p := m.split(key)
	for {
		h, err := tree.Openat2(top.FD, p, uint64(flags), mode, unix.RESOLVE_BENEATH)
		if err != unix.EAGAIN { // somebody renames something somewhere
			return h, err
		}
	}
}

// parent opens the directory that an object is in.
func (m *machine) parent(key string) (*tree.Handle, string, error) {
	top, p := m.split(key)
	dir, name := tree.SplitPath(p)
	d, err := tree.Openat2(top.FD, dir, unix.O_PATH|unix.O_DIRECTORY, 0, unix.RESOLVE_BENEATH)
	return d, name, err
}

// do does one operation; how is what came of it elsewhere, nil: that is not known.
func (m *machine) do(o op, how *happened) happened {
	if how != nil && how.Errno != 0 && o.Do != "rmtree" && !how.Copied {
		return happened{skipped: true}
	}
	copied := how != nil && how.Copied
	err := m.try(o, &copied)
	errno, ok := err.(unix.Errno)
	if err != nil && !ok {
		errno = unix.EIO
	}
	return happened{Errno: errno, Copied: copied}
}

// openDirs is the text of a chmod that closes no directory to its owner.
const openDirs = "but directories stay open"

func (m *machine) try(o op, copied *bool) error {
	write := func(flags int, off int64, data string) error {
		h, err := m.open(o.A, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY|flags, 0o644*uint64(flags&unix.O_CREAT)/unix.O_CREAT)
		if err != nil {
			return err
		}
		defer h.Close()
		if flags&unix.O_APPEND != 0 {
			_, err = unix.Write(int(h.FD), []byte(data))
			return err
		}
		return tree.WriteFull(h, []byte(data), off)
	}
	switch o.Do {
	case "create":
		return write(unix.O_CREAT|unix.O_TRUNC, 0, o.Text)
	case "append":
		return write(unix.O_APPEND, 0, o.Text)
	case "pwrite":
		return write(unix.O_CREAT, o.N, o.Text)
	case "truncate":
		h, err := m.open(o.A, unix.O_WRONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer h.Close()
		return unix.Ftruncate(int(h.FD), o.N)
	case "rewrite": // the same bytes
		h, err := m.open(o.A, unix.O_RDWR|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer h.Close()
		st, err := h.Stat()
		if err != nil || !st.IsReg() {
			return tree.OrMoved(err)
		}
		data := make([]byte, st.Size)
		if err := tree.ReadFull(h, data, 0); err != nil {
			return err
		}
		if err := unix.Ftruncate(int(h.FD), 0); err != nil {
			return err
		}
		return tree.WriteFull(h, data, 0)
	case "chmod":
		h, err := m.open(o.A, unix.O_PATH|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		defer h.Close()
		st, err := h.Stat()
		if err != nil || st.Typ() == unix.S_IFLNK || o.N&unix.S_ISGID != 0 && !st.IsDir() { // that is not committed
			return cmp.Or[error](err, unix.EINVAL)
		}
		if m.weak && !st.IsDir() && st.Nlink > 1 {
			return unix.EPERM // see link: what an overlay checks may be the mode from before
		}
		if o.Text == openDirs && st.IsDir() {
			return h.Chmod(uint32(o.N) | 0o500)
		}
		return h.Chmod(uint32(o.N))
	case "utimes":
		d, name, err := m.parent(o.A)
		if err != nil {
			return err
		}
		defer d.Close()
		return setTime(int(d.FD), name, o.N)
	case "setxattr", "removexattr":
		flags := unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
		h, err := m.open(o.A, flags, 0)
		if err != nil {
			return err
		}
		defer h.Close()
		if o.Do == "removexattr" {
			return unix.Fremovexattr(int(h.FD), o.B)
		}
		return unix.Fsetxattr(int(h.FD), o.B, []byte(o.Text), 0)
	}
	d, name, err := m.parent(o.A)
	if err != nil {
		return err
	}
	defer d.Close()
	switch o.Do {
	case "mkdir":
		return unix.Mkdirat(int(d.FD), name, uint32(o.N))
	case "rmdir":
		return unix.Unlinkat(int(d.FD), name, unix.AT_REMOVEDIR)
	case "unlink":
		return unix.Unlinkat(int(d.FD), name, 0)
	case "rmtree":
		return rmtree(d, name)
	case "symlink":
		return unix.Symlinkat(o.Text, int(d.FD), name)
	case "fifo":
		return unix.Mknodat(int(d.FD), name, unix.S_IFIFO|0o640, 0)
	case "socket":
		return unix.Mknodat(int(d.FD), name, unix.S_IFSOCK|0o600, 0)
	}
	e, other, err := m.parent(o.B)
	if err != nil {
		return err
	}
	defer e.Close()
	switch o.Do {
	case "link":
		st, err := d.Lstat(name)
		if err != nil || st.IsDir() || o.A[0] != o.B[0] { // roots are on their own
			return cmp.Or[error](err, unix.EPERM)
		}
		// Where a file of the lower directory gets another name, an overlay has an
		// inode for each, one of which does not hear of the other's new mode. What is
		// in the upper directory already has one.
		if st.Typ() == unix.S_IFLNK {
			err = setTime(int(d.FD), name, st.Mtime.Nano())
		} else {
			err = unix.Fchmodat(int(d.FD), name, st.Perm(), 0)
		}
		if err != nil {
			return err
		}
		return unix.Linkat(int(d.FD), name, int(e.FD), other, 0)
	case "rename":
		err := unix.Errno(unix.EXDEV)
		if !*copied {
			if e := unix.Renameat2(int(d.FD), name, int(e.FD), other, 0); e == nil {
				return nil
			} else if err = e.(unix.Errno); err != unix.EXDEV {
				return err
			}
		}
		*copied = true
		return moveByCopy(d, name, e, other)
	case "exchange":
		return unix.Renameat2(int(d.FD), name, int(e.FD), other, unix.RENAME_EXCHANGE)
	}
	panic("unknown operation " + o.Do)
}

// setTime sets the modification time of a name, links not followed.
func setTime(dirfd int, name string, ns int64) error {
	ts := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(ns)}
	return unix.UtimesNanoAt(dirfd, name, ts, unix.AT_SYMLINK_NOFOLLOW)
}

// rmtree is rm -r, in the order of names.
func rmtree(d *tree.Handle, name string) error {
	err := unix.Unlinkat(int(d.FD), name, 0)
	if err != unix.EISDIR {
		return err
	}
	sub, err := d.OpenDir(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	names, err := sub.Names()
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, n := range names {
		if err := rmtree(sub, n); err != nil {
			return err
		}
	}
	return unix.Unlinkat(int(d.FD), name, unix.AT_REMOVEDIR)
}

// moveByCopy is what mv does where a rename is refused.
func moveByCopy(d *tree.Handle, name string, e *tree.Handle, other string) error {
	st, err := d.Lstat(name)
	if err != nil {
		return err
	}
	to, found, err := e.LstatIf(other)
	switch {
	case err != nil:
		return err
	case !found:
	case st.IsDir() && !to.IsDir():
		return unix.ENOTDIR
	case !st.IsDir() && to.IsDir():
		return unix.EISDIR
	case to.IsDir():
		err = unix.Unlinkat(int(e.FD), other, unix.AT_REMOVEDIR)
	default:
		err = unix.Unlinkat(int(e.FD), other, 0)
	}
	if err != nil {
		return err
	}
	if err := plainCopy(d, name, e, other, nil); err != nil {
		return err
	}
	return rmtree(d, name)
}

// copyPath copies a directory to a new one, with hard links if that is wanted.
func copyPath(from, to string, linked bool) error {
	open := func(p string) (*tree.Handle, error) {
		return tree.Openat2(unix.AT_FDCWD, path.Dir(p), unix.O_PATH|unix.O_DIRECTORY, 0, 0)
	}
	d, err := open(from)
	if err != nil {
		return err
	}
	defer d.Close()
	e, err := open(to)
	if err != nil {
		return err
	}
	defer e.Close()
	var links map[tree.Inode]string
	if linked {
		links = map[tree.Inode]string{}
	}
	return plainCopy(d, path.Base(from), e, path.Base(to), links)
}

// plainCopy is cp -a; links are the paths of copies of files that have several names,
// nil: each gets a copy.
func plainCopy(d *tree.Handle, name string, e *tree.Handle, other string, links map[tree.Inode]string) error {
	st, err := d.Lstat(name)
	if err != nil {
		return err
	}
	if links != nil && st.IsReg() && st.Nlink > 1 {
		id := tree.Inode{Dev: st.Dev, Ino: st.Ino}
		if first, ok := links[id]; ok {
			return unix.Linkat(unix.AT_FDCWD, first, int(e.FD), other, 0)
		}
		dir, err := os.Readlink(e.ProcPath())
		if err != nil {
			return err
		}
		links[id] = dir + "/" + other
	}
	switch st.Typ() {
	case unix.S_IFDIR:
		if err := e.Mkdir(other); err != nil {
			return err
		}
		a, err := d.OpenDir(name)
		if err != nil {
			return err
		}
		defer a.Close()
		b, err := e.OpenDir(other)
		if err != nil {
			return err
		}
		defer b.Close()
		names, err := a.Names()
		if err != nil {
			return err
		}
		slices.Sort(names)
		for _, n := range names {
			if err := plainCopy(a, n, b, n, links); err != nil {
				return err
			}
		}
		return copyAttrs(a, b, st)
	case unix.S_IFREG:
		a, err := d.Open(name, unix.O_RDONLY|unix.O_NOFOLLOW)
		if err != nil {
			return err
		}
		defer a.Close()
		b, err := e.Create(other)
		if err != nil {
			return err
		}
		defer b.Close()
		data := make([]byte, st.Size)
		if err := tree.ReadFull(a, data, 0); err != nil {
			return err
		}
		if err := tree.WriteFull(b, data, 0); err != nil {
			return err
		}
		return copyAttrs(a, b, st)
	case unix.S_IFLNK:
		text := make([]byte, 4096)
		n, err := unix.Readlinkat(int(d.FD), name, text)
		if err != nil {
			return err
		}
		if err := unix.Symlinkat(string(text[:n]), int(e.FD), other); err != nil {
			return err
		}
	default:
		if err := unix.Mknodat(int(e.FD), other, st.Mode, 0); err != nil {
			return err
		}
		list := make([]byte, 1024)
		if n, err := unix.Lgetxattr(d.ProcPath()+"/"+name, aclXattr, list); err == nil {
			if err := unix.Lsetxattr(e.ProcPath()+"/"+other, aclXattr, list[:n], 0); err != nil {
				return err
			}
		}
		if err := unix.Fchmodat(int(e.FD), other, st.Perm(), 0); err != nil {
			return err
		}
	}
	return setTime(int(e.FD), other, st.Mtime.Nano())
}

func copyAttrs(a, b *tree.Handle, st tree.Stat) error {
	x, err := a.Xattrs()
	if err != nil {
		return err
	}
	if err := b.SetXattrs(x); err != nil {
		return err
	}
	if err := b.Chmod(st.Perm()); err != nil {
		return err
	}
	return b.SetMtime(st.Mtime)
}

// An author makes up operations. It knows roughly what is there, so that most of them
// have something to work on.
type author struct {
	*rand.Rand
	roots int
	known []string // objects that may be there
	dirs  []string // those that may be directories
	tame  bool     // nothing is closed to its owner
	few   bool     // few objects: what is done concerns the same ones again and again, most of all their links and times
	n     int      // for contents that differ
}

func newAuthor(seed uint64, roots int, tame bool) *author {
	a := &author{Rand: rand.New(rand.NewPCG(seed, 0x6e7372756e)), roots: roots, tame: tame}
	for i := range roots {
		a.dirs = append(a.dirs, key(i, "."))
	}
	return a
}

func pick[T any](a *author, list ...T) T { return list[a.IntN(len(list))] }

// fresh is a name that may or may not be there.
func (a *author) fresh() string {
	dir := pick(a, a.dirs...)
	for strings.Count(dir, "/") > 3 {
		dir = path.Dir(dir)
	}
	return dir + "/" + pick(a, "a", "b", "c", "d", "e", "é\n")
}

// any is a name that probably is there.
func (a *author) any() string {
	if len(a.known) == 0 || a.IntN(8) == 0 {
		return a.fresh()
	}
	return pick(a, a.known...)
}

func (a *author) dir() string {
	if a.IntN(6) == 0 {
		return a.fresh()
	}
	return pick(a, a.dirs...)
}

func (a *author) add(p string, dir bool) {
	if !slices.Contains(a.known, p) {
		a.known = append(a.known, p)
	}
	if dir && !slices.Contains(a.dirs, p) {
		a.dirs = append(a.dirs, p)
	}
}

func (a *author) drop(p string) {
	gone := func(k string) bool { return k == p || strings.HasPrefix(k, p+"/") }
	a.known = slices.DeleteFunc(a.known, gone)
	a.dirs = slices.DeleteFunc(a.dirs, func(k string) bool { return gone(k) && strings.Contains(k, "/") })
}

func (a *author) move(p, to string) {
	if strings.HasPrefix(to+"/", p+"/") {
		return
	}
	for _, list := range []*[]string{&a.known, &a.dirs} {
		for _, k := range slices.Clone(*list) {
			if k == p || strings.HasPrefix(k, p+"/") {
				*list = append(*list, to+strings.TrimPrefix(k, p))
			}
		}
	}
	a.drop(p)
}

func (a *author) text() string {
	a.n++
	switch a.IntN(12) {
	case 0:
		return ""
	case 1:
		return strings.Repeat(fmt.Sprintf("%04d", a.n%10000), 5000)
	case 2:
		return "same"
	}
	return fmt.Sprint("text ", a.n)
}

// write makes up n operations.
func (a *author) write(n int) []op {
	list := make([]op, n)
	for i := range list {
		list[i] = a.op()
	}
	return list
}

// oneOfFew is one of the few names that there are.
func (a *author) oneOfFew() string {
	return key(a.IntN(a.roots), pick(a, "a", "b", "c", "d", "e", "f", "s/a", "s/b"))
}

// fewOp makes up an operation with few objects.
func (a *author) fewOp() op {
	p, to := a.oneOfFew(), a.oneOfFew()
	switch r := a.IntN(100); {
	case r < 10:
		return op{Do: "create", A: p, Text: a.text()}
	case r < 17:
		return op{Do: "append", A: p, Text: a.text()}
	case r < 20:
		return op{Do: "rewrite", A: p}
	case r < 42:
		return op{Do: "link", A: p, B: p[:1] + to[1:]} // roots are on their own
	case r < 56:
		return op{Do: "utimes", A: p, N: 1_000_000_000_000_000_000 + a.Int64N(200_000_000_000_000_000)}
	case r < 68:
		return op{Do: "unlink", A: p}
	case r < 76:
		return op{Do: "rename", A: p, B: to}
	case r < 80:
		return op{Do: "exchange", A: p, B: to}
	case r < 84:
		return op{Do: "symlink", A: p, Text: pick(a, "a", "nowhere")}
	case r < 88:
		return op{Do: pick(a, "fifo", "fifo", "socket"), A: p}
	case r < 92:
		return op{Do: "chmod", A: p, N: pick[int64](a, 0o600, 0o644, 0o755), Text: openDirs}
	case r < 94:
		return op{Do: "setxattr", A: p, B: "user.x", Text: pick(a, "1", "2")}
	case r < 98:
		return op{Do: "mkdir", A: key(a.IntN(a.roots), pick(a, "s", "s", "d")), N: 0o755}
	default:
		return op{Do: "rmtree", A: key(a.IntN(a.roots), "s")}
	}
}

func (a *author) op() op {
	if a.few {
		return a.fewOp()
	}
	switch r := a.IntN(100); {
	case r < 14:
		p := pick(a, a.fresh(), a.any())
		a.add(p, false)
		return op{Do: "create", A: p, Text: a.text()}
	case r < 19:
		return op{Do: "append", A: a.any(), Text: a.text()}
	case r < 22:
		return op{Do: "truncate", A: a.any(), N: pick[int64](a, 0, 1, 5, 100, 70000)}
	case r < 25:
		p := a.any()
		a.add(p, false)
		return op{Do: "pwrite", A: p, N: pick[int64](a, 0, 2, 10000, 200000), Text: a.text()}
	case r < 28:
		return op{Do: "rewrite", A: a.any()}
	case r < 36:
		p := pick(a, a.fresh(), a.any())
		a.add(p, true)
		return op{Do: "mkdir", A: p, N: pick[int64](a, 0o755, 0o755, 0o700, 0o775)}
	case r < 39:
		p := a.dir()
		if !strings.Contains(p, "/") {
			return a.op()
		}
		a.drop(p)
		return op{Do: "rmdir", A: p}
	case r < 46:
		p := a.any()
		a.drop(p)
		return op{Do: "unlink", A: p}
	case r < 52:
		p := pick(a, a.any(), a.dir())
		if !strings.Contains(p, "/") {
			return a.op()
		}
		a.drop(p)
		return op{Do: "rmtree", A: p}
	case r < 63:
		p, to := pick(a, a.any(), a.any(), a.dir()), pick(a, a.any(), a.fresh())
		if !strings.Contains(p, "/") {
			return a.op()
		}
		a.drop(to)
		a.move(p, to)
		return op{Do: "rename", A: p, B: to}
	case r < 66:
		p, to := a.any(), a.any()
		return op{Do: "exchange", A: p, B: to}
	case r < 72:
		p, to := a.any(), a.fresh()
		a.add(to, false)
		return op{Do: "link", A: p, B: to}
	case r < 76:
		p := a.fresh()
		a.add(p, a.IntN(2) == 0)
		return op{Do: "symlink", A: p, Text: pick(a, "a", "b", "c/d", "../a", ".", "nowhere", "/nonexistent/x", "e\x1b[2J")}
	case r < 78:
		p := a.fresh()
		a.add(p, false)
		return op{Do: pick(a, "fifo", "socket"), A: p}
	case r < 87:
		p := pick(a, a.any(), a.dir())
		modes := []int64{0o600, 0o644, 0o755, 0o700, 0o444, 0o555, 0o666, 0o1777, 0o500, 0o400, 0o2755}
		if !a.tame {
			modes = append(modes, 0, 0o200, 0o300, 0o077, 0o100)
		}
		o := op{Do: "chmod", A: p, N: pick(a, modes...)}
		if a.tame {
			o.Text = openDirs
		}
		return o
	case r < 92:
		return op{Do: "utimes", A: pick(a, a.any(), a.dir()), N: 1_000_000_000_000_000_000 + a.Int64N(200_000_000_000_000_000)}
	case r < 97:
		p := pick(a, a.any(), a.dir())
		if !strings.Contains(p, "/") {
			return a.op() // the root's own attributes are not committed
		}
		switch a.IntN(5) {
		case 0:
			return op{Do: "setxattr", A: p, B: "system.posix_acl_access", Text: acl(7, uint16(a.IntN(8)), 5, 7, 0)}
		case 1:
			return op{Do: "setxattr", A: p, B: "system.posix_acl_default", Text: acl(7, uint16(a.IntN(8)), 5, 7, 5)}
		}
		return op{Do: "setxattr", A: p, B: pick(a, "user.x", "user.y"), Text: pick(a, "", "1", "\x00\xff", strings.Repeat("long", 200))}
	default:
		p := a.any()
		return op{Do: "removexattr", A: p, B: pick(a, "user.x", "user.y", "system.posix_acl_access")}
	}
}

const aclXattr = "system.posix_acl_access"

// acl is an access control list in the form the kernel takes, with rights of the
// owner, of one more user, of the group, at most, and of others.
func acl(owner, user, group, mask, others uint16) string {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range [...]struct {
		tag, perm uint16
		id        uint32
	}{{1, owner, ^uint32(0)}, {2, user, 0}, {4, group, ^uint32(0)}, {0x10, mask, ^uint32(0)}, {0x20, others, ^uint32(0)}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return string(b)
}
