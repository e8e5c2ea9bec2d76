//go:build linux

package tree

import (
	"bytes"
	"context"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// blockSize is how many bytes are read at a time if the kernel cannot copy them.
// chunkSize is how many bytes the kernel copies until the context is checked again.
const (
	blockSize = 128 << 10
	chunkSize = 64 << 20
)

var blocks = sync.Pool{New: func() any { b := make([]byte, 2*blockSize); return &b }}

// SameData compares the first size bytes of two files. It does not read holes
// that both have in the same place, because a sparse file can be huge.
func SameData(a, b *Handle, size int64) (bool, error) {
	p := blocks.Get().(*[]byte)
	defer blocks.Put(p)
	x, y := (*p)[:blockSize], (*p)[blockSize:]
	for off := int64(0); off < size; {
		if size-off > blockSize {
			next := min(nextData(a, off, size), nextData(b, off, size))
			if next > off {
				off = next
				continue
			}
		}
		// Read a part before looking for holes again.
		for end := min(size, off+64*blockSize); off < end; {
			n := min(int64(blockSize), end-off)
			if err := ReadFull(a, x[:n], off); err != nil {
				return false, err
			}
			if err := ReadFull(b, y[:n], off); err != nil {
				return false, err
			}
			if !bytes.Equal(x[:n], y[:n]) {
				return false, nil
			}
			off += n
		}
	}
	return true, nil
}

// nextData returns the offset of the next data of f from off on: size if there is
// none, off if the file system does not know.
func nextData(f *Handle, off, size int64) int64 {
	next, err := unix.Seek(int(f.FD), off, unix.SEEK_DATA)
	if err == unix.ENXIO {
		return size
	}
	if err != nil {
		return off
	}
	return min(next, size)
}

// dataIn returns how many of the first size bytes of f are not in holes. Space without data counts as a hole.
func dataIn(f *Handle, size int64) (sum int64) {
	for off := nextData(f, 0, size); off < size; off = nextData(f, off, size) {
		hole, err := unix.Seek(int(f.FD), off, unix.SEEK_HOLE)
		if err != nil || hole <= off {
			return size
		}
		hole = min(hole, size)
		sum, off = sum+hole-off, hole
	}
	return sum
}

// ReadFull reads exactly len(p) bytes. If the file became shorter, the error is ErrMoved.
func ReadFull(f *Handle, p []byte, off int64) error {
	for len(p) > 0 {
		n := 0
		if err := sys.Retry(func() (err error) { n, err = unix.Pread(int(f.FD), p, off); return err }); err != nil {
			return err
		}
		if n == 0 {
			return ErrMoved
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

func WriteFull(f *Handle, p []byte, off int64) error {
	for len(p) > 0 {
		n := 0
		if err := sys.Retry(func() (err error) { n, err = unix.Pwrite(int(f.FD), p, off); return err }); err != nil {
			return err
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// copyData copies the content of src, which st describes, to the empty file dst, without the holes.
func copyData(ctx context.Context, dst, src *Handle, st Stat) error {
	if st.Blocks*512 >= st.Size {
		return copyRange(ctx, dst, src, 0, st.Size)
	}
	for off := int64(0); ; {
		data, err := unix.Seek(int(src.FD), off, unix.SEEK_DATA)
		if err == unix.ENXIO { // the rest is a hole
			break
		}
		if err != nil {
			return copyRange(ctx, dst, src, off, st.Size)
		}
		hole, err := unix.Seek(int(src.FD), data, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if data >= st.Size {
			break
		}
		off = min(hole, st.Size)
		if err := copyRange(ctx, dst, src, data, off); err != nil {
			return err
		}
		if off >= st.Size {
			break
		}
	}
	return sys.Retry(func() error { return unix.Ftruncate(int(dst.FD), st.Size) })
}

func copyRange(ctx context.Context, dst, src *Handle, off, end int64) error {
	for off < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, w := off, off
		n := 0
		err := sys.Retry(func() (err error) {
			n, err = unix.CopyFileRange(int(src.FD), &r, int(dst.FD), &w, int(min(end-off, chunkSize)), 0)
			return err
		})
		switch err {
		case nil:
			if n == 0 {
				return ErrMoved
			}
			off += int64(n)
			continue
		case unix.EXDEV, unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP, unix.EPERM:
			return CopyBlocks(ctx, dst, src, off, end)
		}
		if sys.CopyRangeRefused(err) {
			return CopyBlocks(ctx, dst, src, off, end)
		}
		return err
	}
	return nil
}

// CopyBlocks is copyRange for file systems between which the kernel cannot copy.
func CopyBlocks(ctx context.Context, dst, src *Handle, off, end int64) error {
	p := blocks.Get().(*[]byte)
	defer blocks.Put(p)
	for off < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := (*p)[:min(int64(len(*p)), end-off)]
		if err := ReadFull(src, b, off); err != nil {
			return err
		}
		if err := WriteFull(dst, b, off); err != nil {
			return err
		}
		off += int64(len(b))
	}
	return nil
}
