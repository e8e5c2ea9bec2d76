//go:build linux

package overlay

import (
	"bytes"
	"context"
	"hash/fnv"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/overlay/internal/tree"
)

// Two commits at the same time may each have nothing that runs later, and both together do: one has the hooks of a
// repository, and the other one its HEAD. So the renames of commits to one project, or to a part of it, do not overlap,
// and a commit looks at its changes again if there was another one since it looked the first time.
//
// The file turnsName in the state directory has two numbers for a directory, at a place that its path decides: one is
// another number after each commit to this directory, and the other one after each commit to a directory below. Who
// commits locks both for a directory, and shares the lock for the directories above. Nobody waits for the disk: after
// a restart nobody has looked yet. Commits of sessions in different state directories do not see each other.

const (
	turnsName = "turns"
	turnSlots = 1 << 16 // different directories can have the same place
	turnHalf  = 8       // bytes of a number
)

// A turn is a commit's place in the order of commits to some roots.
type turn struct {
	f          *tree.Handle
	own, above []int64  // places, sorted
	seen       [][]byte // the numbers of other commits that matter
}

// newTurn notes the commits up to now.
func newTurn(state *tree.Handle, roots []Root) (*turn, error) {
	const flags, resolve = unix.O_RDWR | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_NONBLOCK, unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS
	f, err := tree.Openat2(state.FD, turnsName, flags, 0o600, resolve)
	if err != nil {
		return nil, err
	}
	t := &turn{f: f}
	for _, r := range roots {
		t.own = append(t.own, slot(r.Path))
		for dir := r.Path; dir != "/"; {
			dir = path.Dir(dir)
			t.above = append(t.above, slot(dir))
		}
	}
	slices.Sort(t.own)
	slices.Sort(t.above)
	t.own, t.above = slices.Compact(t.own), slices.Compact(t.above)
	if t.seen, err = t.read(); err != nil {
		f.Close()
		return nil, err
	}
	return t, nil
}

func slot(dir string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(dir))
	return int64(h.Sum64()%turnSlots) * 2 * turnHalf
}

func (t *turn) close() { t.f.Close() }

// read returns the numbers of commits to the roots, to what is below them, and to what is above.
func (t *turn) read() (list [][]byte, err error) {
	get := func(at int64, size int) {
		b := make([]byte, size)
		if err == nil {
			_, err = unix.Pread(int(t.f.FD), b, at)
		}
		list = append(list, b)
	}
	for _, at := range t.own {
		get(at, 2*turnHalf)
	}
	for _, at := range t.above {
		get(at, turnHalf)
	}
	return list, err
}

// write makes the numbers others than before.
func (t *turn) write() error {
	put := func(at int64) error {
		_, err := unix.Pwrite(int(t.f.FD), []byte(sys.RandomText(turnHalf)), at)
		return err
	}
	for _, at := range t.own {
		if err := put(at); err != nil {
			return err
		}
	}
	for _, at := range t.above {
		if err := put(at + turnHalf); err != nil {
			return err
		}
	}
	return nil
}

// waitsLong is how long a commit waits for another one before it says so.
const waitsLong = time.Second

// take waits until no other commit to these roots is renaming, but not longer than most, if that is not zero. It calls
// waiting, if it is not nil, when it takes long. late: there was another one since newTurn.
func (t *turn) take(ctx context.Context, most time.Duration, waiting func(Holder)) (late bool, err error) {
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(most, waitsLong))
		defer cancel()
	}
	begun := time.Now()
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 2*time.Millisecond) {
		if err = t.lock(); err == nil {
			break
		}
		_ = t.fcntl(unix.F_UNLCK, 0, 0)
		if err != unix.EAGAIN && err != unix.EACCES {
			return false, err
		}
		if waiting != nil && time.Since(begun) > waitsLong {
			waiting(t.holder(ctx))
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return false, &WaitError{t.holder(context.WithoutCancel(ctx)), ctx.Err()}
		case <-time.After(pause):
		}
	}
	now, err := t.read()
	if err == nil {
		err = t.write()
	}
	return !slices.EqualFunc(now, t.seen, bytes.Equal), err
}

// end ends the commit's turn. Others that have looked meanwhile will look again.
func (t *turn) end() {
	_ = t.write() // it could be written before
	_ = t.fcntl(unix.F_UNLCK, 0, 0)
}

// lock takes all locks, or returns EAGAIN.
func (t *turn) lock() error {
	for _, at := range t.above {
		if _, found := slices.BinarySearch(t.own, at); found {
			continue
		}
		if err := t.fcntl(unix.F_RDLCK, at, 2*turnHalf); err != nil {
			return err
		}
	}
	for _, at := range t.own {
		if err := t.fcntl(unix.F_WRLCK, at, 2*turnHalf); err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) fcntl(kind int16, at, size int64) error {
	return unix.FcntlFlock(uintptr(t.f.FD), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Start: at, Len: size})
}
