//go:build linux

package losses

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// A step is one thing that a program does with files. Text is a word that no other step writes.
type step struct {
	Do   string `json:",omitempty"`
	A, B string `json:",omitempty"`
	N    int64  `json:",omitempty"`
	Text string `json:",omitempty"`
}

func (s step) String() string {
	return strings.Join(strings.Fields(fmt.Sprintf("%s %q %q %d %q", s.Do, s.A, s.B, s.N, s.Text)), " ")
}

// A script is what one or more processes do at once, in the working directory.
type script [][]step

// reader is what work reads.
func (s script) reader() io.Reader {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return bytes.NewReader(text)
}

// workEnv makes the test binary one of the processes.
const workEnv = "NSRUN_LOSSES_WORK"

// done is what they tell.
type done struct {
	Log  []string   // what came of each step of the first process
	Logs [][]string // of the others
	Seen view       // what they saw at the end
}

// work is the first process.
func work() int {
	var s script
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	unix.Umask(0o022)
	runtime.LockOSThread()
	if err := powerless(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var d done
	if os.Getenv(workEnv) == "one" {
		_ = json.NewEncoder(os.Stdout).Encode(runSteps(s[0]))
		return 0
	}
	d.Logs = make([][]string, max(len(s), 1)-1)
	outputs := make([]bytes.Buffer, len(d.Logs))
	var others []*exec.Cmd
	for i, steps := range s[min(len(s), 1):] {
		c := exec.Command("/proc/self/exe")
		c.Env, c.Stdin = []string{workEnv + "=one"}, script{steps}.reader()
		c.Stdout, c.Stderr = &outputs[i], os.Stderr
		if err := c.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		others = append(others, c)
	}
	if len(s) > 0 {
		d.Log = runSteps(s[0])
	}
	for i, c := range others {
		err := c.Wait()
		if err == nil {
			err = json.Unmarshal(outputs[i].Bytes(), &d.Logs[i])
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	var err error
	if d.Seen, err = look("."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(&d); err != nil {
		return 1
	}
	return 0
}

// powerless takes from this thread, and from what it starts, what root's commands do not have in a sandbox.
func powerless() error {
	if os.Geteuid() != 0 {
		return nil
	}
	const noRoot = 1<<0 | 1<<1 // SECBIT_NOROOT, and that it stays
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, noRoot, 0, 0, 0); err != nil && err != unix.EPERM {
		return err
	}
	var none [2]unix.CapUserData
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
}

// files that are held open, by number.
const held = 3

func runSteps(steps []step) (log []string) {
	m := machine{}
	for i := range m.files {
		m.files[i] = -1
	}
	for _, s := range steps {
		text := "ok"
		if err := m.do(s); err != nil {
			text = err.Error()
		}
		log = append(log, s.String()+": "+text)
	}
	return log
}

type machine struct{ files [held]int }

func (m *machine) do(s step) error {
	const noWait = unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	open := func(name string, flags int, use func(fd int) error) error {
		fd, err := unix.Open(name, flags|noWait, 0o644)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return use(fd)
	}
	put := func(fd int) error { return all(unix.Write(fd, []byte(s.Text))) }
	switch s.Do {
	case "create":
		return open(s.A, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, put)
	case "append":
		return open(s.A, unix.O_WRONLY|unix.O_APPEND, put)
	case "pwrite":
		return open(s.A, unix.O_WRONLY|unix.O_CREAT, func(fd int) error { return all(unix.Pwrite(fd, []byte(s.Text), s.N)) })
	case "truncate":
		return unix.Truncate(s.A, s.N)
	case "punch":
		return open(s.A, unix.O_WRONLY, func(fd int) error {
			return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, s.N, 2)
		})
	case "map":
		return open(s.A, unix.O_RDWR, func(fd int) error {
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil || st.Size == 0 || st.Mode&unix.S_IFMT != unix.S_IFREG {
				return fmt.Errorf("nothing to map, %v", err)
			}
			b, err := unix.Mmap(fd, 0, int(min(st.Size, 4096)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				return err
			}
			copy(b, s.Text)
			return unix.Munmap(b)
		})
	case "same": // the bytes it has
		return open(s.A, unix.O_RDWR, func(fd int) error {
			b := make([]byte, 1<<16)
			n, err := unix.Pread(fd, b, 0)
			if err != nil {
				return err
			}
			return all(unix.Pwrite(fd, b[:n], 0))
		})
	case "save": // as editors do
		temp := path.Join(path.Dir(s.A), ".save"+s.Text) // another process may save here, too
		err := open(temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, func(fd int) error {
			if err := put(fd); err != nil {
				return err
			}
			return unix.Fsync(fd)
		})
		if err == nil {
			if err = unix.Rename(temp, s.A); err != nil {
				_ = unix.Unlink(temp)
			}
		}
		return err
	case "backup": // as other editors do: the old file gets another name, the new one is written
		_ = unix.Unlink(s.B)
		if err := unix.Link(s.A, s.B); err != nil {
			return err
		}
		if err := unix.Unlink(s.A); err != nil {
			return err
		}
		return open(s.A, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, put)
	case "nameless":
		fd, err := unix.Open(path.Dir(s.A), unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := put(fd); err != nil {
			return err
		}
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprint("/proc/self/fd/", fd), unix.AT_FDCWD, s.A, unix.AT_SYMLINK_FOLLOW)
	case "copy":
		return open(s.A, unix.O_RDONLY, func(from int) error {
			var st unix.Stat_t
			if err := unix.Fstat(from, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
				return fmt.Errorf("no file, %v", err)
			}
			return open(s.B, unix.O_WRONLY|unix.O_CREAT, func(to int) error {
				err := all(unix.CopyFileRange(from, nil, to, nil, int(st.Size), 0))
				if err == unix.EXDEV { // on tmpfs, from one layer to another one
					err = all(unix.Sendfile(to, from, nil, int(st.Size)))
				}
				return err
			})
		})
	case "open":
		fd, err := unix.Open(s.A, []int{unix.O_RDONLY, unix.O_RDWR, unix.O_RDWR | unix.O_APPEND}[s.N/held]|noWait, 0)
		var st unix.Stat_t
		if err == nil && unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO { // see SECURITY.md: old FIFOs that are open
			_ = unix.Close(fd)
			err = unix.EINVAL
		}
		if err == nil {
			m.close(s.N % held)
			m.files[s.N%held] = fd
		}
		return err
	case "hold write":
		return put(m.files[s.N])
	case "hold read":
		b := make([]byte, 100)
		n, err := unix.Pread(m.files[s.N], b, 0)
		if err == nil {
			err = fmt.Errorf("read %q", b[:n])
		}
		return err
	case "hold truncate":
		return unix.Ftruncate(m.files[s.N], 5)
	case "hold chmod":
		return unix.Fchmod(m.files[s.N], 0o640)
	case "hold link":
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprint("/proc/self/fd/", m.files[s.N]), unix.AT_FDCWD, s.A, unix.AT_SYMLINK_FOLLOW)
	case "close":
		m.close(s.N)
		return nil
	case "rename":
		return unix.Renameat2(unix.AT_FDCWD, s.A, unix.AT_FDCWD, s.B, uint(s.N))
	case "link":
		return unix.Link(s.A, s.B)
	case "link -f": // as ln -f does
		temp := path.Join(path.Dir(s.B), ".link")
		err := unix.Link(s.A, temp)
		if err == nil {
			err = unix.Rename(temp, s.B)
			_ = unix.Unlink(temp)
		}
		return err
	case "symlink":
		return unix.Symlink(s.Text, s.A)
	case "fifo":
		return unix.Mkfifo(s.A, 0o640)
	case "socket":
		return unix.Mknod(s.A, unix.S_IFSOCK|0o600, 0)
	case "unlink":
		return unix.Unlink(s.A)
	case "mkdir":
		return unix.Mkdir(s.A, 0o755)
	case "rmdir":
		return unix.Rmdir(s.A)
	case "rmtree":
		return os.RemoveAll(s.A)
	case "chmod":
		var st unix.Stat_t
		if err := unix.Stat(s.A, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			s.N |= 0o500 // else nobody but root could look
		}
		return unix.Chmod(s.A, uint32(s.N))
	case "setxattr":
		return unix.Lsetxattr(s.A, "user.x", []byte(s.Text), 0)
	case "removexattr":
		return unix.Lremovexattr(s.A, "user.x")
	case "stamp":
		ts := []unix.Timespec{unix.NsecToTimespec(s.N), unix.NsecToTimespec(s.N)}
		return unix.UtimesNanoAt(unix.AT_FDCWD, s.A, ts, unix.AT_SYMLINK_NOFOLLOW)
	case "times":
		ts := []unix.Timespec{{Sec: s.N}, {Sec: s.N}}
		return unix.UtimesNanoAt(unix.AT_FDCWD, s.A, ts, unix.AT_SYMLINK_NOFOLLOW)
	}
	panic(s.Do)
}

func (m *machine) close(i int64) {
	if m.files[i] >= 0 {
		_ = unix.Close(m.files[i])
	}
	m.files[i] = -1
}

func all(_ int, err error) error { return err }

// An author makes up steps.
type author struct {
	*rand.Rand
	who string
	n   int
	now int // seconds since 1970, long ago
	// tame: no directory is closed, nothing is held open, and no time is set.
	tame bool
}

// newAuthor makes one whose steps depend on the seed, and on the first letter and the length of its name.
func newAuthor(seed uint64, who string) *author {
	return &author{Rand: rand.New(rand.NewPCG(seed, uint64(len(who))<<8+uint64(who[0]))), who: who, now: 1_000_000_000}
}

// text is one that nobody else writes.
func (a *author) text() string {
	a.n++
	return fmt.Sprintf("<%s%d>", a.who, a.n)
}

func (a *author) dir() string { return []string{".", ".", "d", "d/e", "g", "h"}[a.IntN(6)] }

func (a *author) file() string { return path.Join(a.dir(), string("abcfl"[a.IntN(5)])) }

func (a *author) any() string {
	if a.IntN(4) == 0 {
		return path.Join(a.dir(), string("degh"[a.IntN(4)]))
	}
	return a.file()
}

// size is an offset: a file from a mebibyte on is moved by a commit, not copied.
func (a *author) size() int64 {
	return []int64{0, 3, 10, 5000, 70_000, 1 << 20, 3 << 20}[a.IntN(7)]
}

func (a *author) step() step {
	a.now++
	flags := func() int64 { return []int64{0, 0, 0, unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE}[a.IntN(5)] }
	switch a.IntN(40) {
	case 0, 1:
		return step{Do: "create", A: a.file(), Text: a.text()}
	case 2, 3:
		return step{Do: "append", A: a.file(), Text: a.text()}
	case 4:
		return step{Do: "pwrite", A: a.file(), N: a.size(), Text: a.text()}
	case 5:
		return step{Do: "truncate", A: a.file(), N: a.size()}
	case 6:
		return step{Do: "punch", A: a.file(), N: 1}
	case 7:
		return step{Do: "map", A: a.file(), Text: a.text()}
	case 8:
		return step{Do: "same", A: a.file()}
	case 9, 10:
		return step{Do: "save", A: a.file(), Text: a.text()}
	case 11:
		return step{Do: "backup", A: a.file(), B: a.file(), Text: a.text()}
	case 12:
		return step{Do: "nameless", A: a.file(), Text: a.text()}
	case 13:
		return step{Do: "copy", A: a.file(), B: a.file()}
	case 14, 15:
		if !a.tame {
			return step{Do: "open", A: a.file(), N: int64(a.IntN(3 * held))}
		}
		return step{Do: "append", A: a.file(), Text: a.text()}
	case 16, 17, 18:
		if !a.tame {
			return step{Do: "hold write", N: int64(a.IntN(held)), Text: a.text()}
		}
		return step{Do: "save", A: a.file(), Text: a.text()}
	case 19:
		if !a.tame {
			do := []string{"hold read", "hold truncate", "hold chmod", "hold link", "close"}[a.IntN(5)]
			return step{Do: do, N: int64(a.IntN(held)), A: a.file()}
		}
		return step{Do: "mkdir", A: a.any()}
	case 20, 21:
		return step{Do: "rename", A: a.file(), B: a.file(), N: flags()}
	case 22, 23, 24:
		return step{Do: "rename", A: a.any(), B: a.any(), N: flags()}
	case 25, 26:
		return step{Do: "link", A: a.file(), B: a.file()}
	case 27, 28:
		return step{Do: "link -f", A: a.file(), B: a.file()}
	case 29:
		return step{Do: "symlink", A: a.file(), Text: a.any()}
	case 30:
		return step{Do: []string{"fifo", "socket"}[a.IntN(2)], A: a.file()}
	case 31, 32:
		return step{Do: "unlink", A: a.file()}
	case 33, 34:
		return step{Do: "mkdir", A: a.any()}
	case 35:
		return step{Do: "rmdir", A: a.any()}
	case 36:
		if a.IntN(2) == 0 {
			return step{Do: "rmtree", A: a.any()}
		}
		return step{Do: "mkdir", A: a.any()}
	case 37:
		return step{Do: "chmod", A: a.any(), N: []int64{0o755, 0o644, 0o600, 0o711, 0o444, 0o555}[a.IntN(6)]}
	case 38:
		return step{Do: []string{"setxattr", "setxattr", "removexattr"}[a.IntN(3)], A: a.any(), Text: a.text()}
	default:
		if a.tame {
			return step{Do: "create", A: a.file(), Text: a.text()}
		}
		return step{Do: "times", A: a.any(), N: int64(a.now)}
	}
}

func (a *author) steps(n int) (list []step) {
	for range n {
		list = append(list, a.step())
	}
	return list
}

// base are the steps that make a project: some files of it have several names.
func (a *author) base() []step {
	list := []step{{Do: "mkdir", A: "d"}, {Do: "mkdir", A: "d/e"}, {Do: "mkdir", A: "g"}}
	for _, d := range []string{".", "d", "d/e", "g"} {
		for _, name := range []string{"a", "b", "c"} {
			p := path.Join(d, name)
			switch a.IntN(12) {
			case 0:
				list = append(list, step{Do: "symlink", A: p, Text: a.any()})
			case 1:
				list = append(list, step{Do: "fifo", A: p})
			case 2: // equal to others
				list = append(list, step{Do: "create", A: p, Text: "<equal>"})
			case 3:
				list = append(list, step{Do: "pwrite", A: p, N: a.size(), Text: a.text()})
			case 4:
			default:
				list = append(list, step{Do: "create", A: p, Text: a.text()})
			}
		}
	}
	for range a.IntN(6) {
		list = append(list, step{Do: "link", A: a.file(), B: a.file()})
	}
	for range a.IntN(4) {
		list = append(list, step{Do: "setxattr", A: a.any(), Text: a.text()})
	}
	for range a.IntN(4) {
		list = append(list, step{Do: "chmod", A: a.any(), N: []int64{0o755, 0o644, 0o600, 0o750}[a.IntN(4)]})
	}
	return list
}
