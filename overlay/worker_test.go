//go:build linux

package overlay

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// A worker is the test binary in a user namespace and a mount namespace, where it may
// mount overlays and see everything. It does one job after the other, which costs less
// than a process for each.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	enc *gob.Encoder
	dec *gob.Decoder
	err *strings.Builder
}

// A job is done in this order; what is empty is left out.
type job struct {
	Build  []op     // done in the roots without mounts; then everything in them gets a time long ago
	Copy   []string // new directories that become copies of the roots
	Linked bool     // names that are linked are linked in the copies too
	Mounts []mounts.Mount
	Script string // of the shell, in the first root; ROOT1, ROOT2, … are all
	Ops    []op   // done in the roots, then in the copies
	Weak   bool   // as somebody whom modes stop
	Blind  bool   // what comes of it is not looked at
	Roots  []string
	Plain  []string // the copies
}

// A result is what came of a job.
type result struct {
	Err      string
	NoMount  bool // Err is of a mount
	Outcomes []happened
	Seen     view // the roots, with the mounts
	Plain    view // the copies
}

// newWorker starts a worker. It may attach layers, see Session.Layers.
func newWorker(layers []*os.File) (*worker, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: exec.Command(exe), err: &strings.Builder{}}
	w.cmd.Env = append(os.Environ(), helperEnv+"=serve")
	w.cmd.Stderr, w.cmd.ExtraFiles = w.err, layers
	w.cmd.SysProcAttr = userNamespace()
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoMount, err)
	}
	w.enc, w.dec = gob.NewEncoder(w.in), gob.NewDecoder(out)
	return w, nil
}

func (w *worker) close() error {
	_ = w.in.Close()
	if err := w.cmd.Wait(); err != nil {
		return fmt.Errorf("worker: %w\n%s", err, w.err)
	}
	return nil
}

func startWorker(t testing.TB) *worker {
	t.Helper()
	w, err := newWorker(nil)
	if err != nil {
		testenv.Skip(t, string(features.UserNamespaces), err.Error())
	}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// work has a job done in a session, and what was written stored.
func (w *worker) work(s *Session, j job) (r result, err error) {
	j.Mounts = s.Mounts()
	if layers := s.Layers(); len(layers) > 0 {
		// Descriptors are inherited only.
		if w, err = newWorker(layers); err != nil {
			return r, err
		}
		defer func() {
			if e := w.close(); err == nil {
				err = e
			}
		}()
	}
	if r, err = w.do(j); err != nil {
		return r, err
	}
	return r, s.Collect(context.Background())
}

var errNoMount = errors.New("no overlay can be mounted")

// do has a job done. What the roots look like in the end is in the result.
func (w *worker) do(j job) (result, error) {
	var r result
	if err := w.enc.Encode(j); err != nil {
		return r, fmt.Errorf("worker: %w", err)
	}
	if err := w.dec.Decode(&r); err != nil {
		return r, fmt.Errorf("worker: %w", err)
	}
	switch {
	case r.NoMount:
		return r, fmt.Errorf("%w: %s", errNoMount, r.Err)
	case r.Err != "":
		return r, errors.New(r.Err)
	}
	return r, nil
}

// must is do for what cannot fail, but for want of overlays.
func (w *worker) must(t testing.TB, j job) result {
	t.Helper()
	r, err := w.do(j)
	if errors.Is(err, errNoMount) {
		testenv.Skip(t, "overlay", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// see is what the roots look like without a session.
func (w *worker) see(t testing.TB, roots ...string) view {
	t.Helper()
	return w.must(t, job{Roots: roots}).Seen
}

// userNamespace is for a process that is root in namespaces of its own.
func userNamespace() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
}

// serve is the worker.
func serve() int {
	// Rights are a thread's.
	runtime.LockOSThread()
	unix.Umask(0o022)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	enc, dec := gob.NewEncoder(os.Stdout), gob.NewDecoder(os.Stdin)
	for {
		var j job
		if err := dec.Decode(&j); err != nil {
			return 0
		}
		var r result
		if err := j.run(&r); err != nil {
			r.Err = err.Error()
		}
		if err := enc.Encode(r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
}

func (j *job) run(r *result) (err error) {
	if j.Build != nil {
		m, err := newMachine(j.Roots)
		if err != nil {
			return err
		}
		for _, o := range j.Build {
			m.do(o, nil)
		}
		m.close()
		var n int64
		for _, root := range j.Roots {
			if err := age(root, &n); err != nil {
				return err
			}
		}
	}
	for i, to := range j.Copy {
		if err := copyPath(j.Roots[i], to, j.Linked); err != nil {
			return err
		}
	}
	for _, m := range j.Mounts {
		if err := mountOne(m); err != nil {
			r.NoMount = true
			return err
		}
		flags := 0
		if m.Kind == mounts.KindLayer {
			flags = unix.MNT_DETACH // our own descriptor is open on it
		}
		defer func() {
			if e := unix.Unmount(m.Target, flags); err == nil && e != nil {
				err = fmt.Errorf("unmount: %w", e)
			}
		}()
	}
	if j.Script != "" {
		if err := shell(j.Script, j.Roots); err != nil {
			return err
		}
	}
	if j.Ops != nil {
		if r.Outcomes, err = j.perform(j.Roots, nil); err != nil {
			return err
		}
		if j.Plain != nil {
			if _, err := j.perform(j.Plain, r.Outcomes); err != nil {
				return err
			}
		}
	}
	if j.Blind {
		return nil
	}
	r.Seen = view{}
	for i, root := range j.Roots {
		upper := ""
		for _, m := range j.Mounts {
			if m.Target == root && m.Kind == mounts.KindOverlay {
				upper = m.Upper
			}
		}
		if err := takeView(r.Seen, key(i, "."), root, upper); err != nil {
			return err
		}
	}
	if j.Plain != nil {
		r.Plain = view{}
		for i, root := range j.Plain {
			if err := takeView(r.Plain, key(i, "."), root, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j *job) perform(roots []string, how []happened) ([]happened, error) {
	m, err := newMachine(roots)
	if err != nil {
		return nil, err
	}
	defer m.close()
	if m.weak = j.Weak; j.Weak {
		back, err := weaken()
		if err != nil {
			return nil, err
		}
		defer back()
	}
	var list []happened
	for i, o := range j.Ops {
		var h *happened
		if how != nil {
			h = &how[i]
		}
		got := m.do(o, h)
		if how != nil && !got.skipped && got.Errno != h.Errno {
			return nil, fmt.Errorf("%v: %v in the sandbox, %v on the copy", o, h.Errno, got.Errno)
		}
		list = append(list, got)
	}
	return list, nil
}

// weaken takes the rights of the thread with which modes do not matter, until back.
func weaken() (back func(), err error) {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had, weak [2]unix.CapUserData
	if err := unix.Capget(&h, &had[0]); err != nil {
		return nil, err
	}
	weak = had
	for _, c := range []uint{unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER} {
		weak[0].Effective &^= 1 << c
	}
	if err := unix.Capset(&h, &weak[0]); err != nil {
		return nil, err
	}
	return func() {
		if err := unix.Capset(&h, &had[0]); err != nil {
			panic(err)
		}
	}, nil
}

func mountOne(m mounts.Mount) error {
	var err error
	switch m.Kind {
	case mounts.KindLayer:
		err = unix.MoveMount(3+m.Layer, "", unix.AT_FDCWD, m.Target, unix.MOVE_MOUNT_F_EMPTY_PATH)
	case mounts.KindBind:
		err = unix.Mount(m.Source, m.Target, "", unix.MS_BIND, "")
	default:
		err = unix.Mount("overlay", m.Target, "overlay", unix.MS_NOSUID|unix.MS_NODEV, overlayOptions(m))
	}
	if err != nil {
		return fmt.Errorf("mount %v at %s: %w", m.Kind, m.Target, err)
	}
	return nil
}

func shell(script string, roots []string) error {
	var out strings.Builder
	sh := exec.Command("/bin/sh", "-euc", script)
	sh.Dir = roots[0]
	sh.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"}
	for i, r := range roots {
		sh.Env = append(sh.Env, fmt.Sprintf("ROOT%d=%s", i+1, r))
	}
	sh.Stdout, sh.Stderr = &out, &out
	if err := sh.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, out.String())
	}
	return nil
}

// age gives everything in a tree a time of its own, long ago.
func age(p string, n *int64) error {
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		d, err := tree.Openat2(unix.AT_FDCWD, p, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0, 0)
		if err != nil {
			return err
		}
		names, err := d.Names()
		d.Close()
		if err != nil {
			return err
		}
		slices.Sort(names)
		for _, name := range names {
			if err := age(p+"/"+name, n); err != nil {
				return err
			}
		}
	}
	*n++
	return setTime(unix.AT_FDCWD, p, 900_000_000_000_000_000+*n*1_000_000_007)
}
