//go:build linux

package sys

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNotRegular says that something is no regular file.
var ErrNotRegular = errors.New("not a regular file")

// copyChunk is how much is copied before the context is looked at again, in bytes.
const copyChunk = 64 << 20

// Regular reports what is open as f, if that is a regular file.
func Regular(f *os.File) (st unix.Stat_t, err error) {
	if err = unix.Fstat(int(f.Fd()), &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = ErrNotRegular
	}
	return st, err
}

// CopyData copies the content of src to the empty file dst: by reference where the file system can (ioctl_ficlone(2)),
// else the data without the holes, in the kernel where that can (copy_file_range(2), which package os calls).
func CopyData(ctx context.Context, dst, src *os.File) (size int64, err error) {
	st, err := Regular(src)
	if err != nil {
		return 0, err
	}
	if st.Size > 0 && Retry(func() error { return unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) }) == nil {
		return st.Size, nil
	}
	for off := int64(0); off < st.Size; {
		data, err := unix.Seek(int(src.Fd()), off, unix.SEEK_DATA)
		if err == unix.ENXIO { // a hole until the end
			break
		}
		hole := st.Size
		if err == nil {
			if hole, err = unix.Seek(int(src.Fd()), data, unix.SEEK_HOLE); err != nil {
				return 0, err
			}
		} else {
			data = off // the file system does not tell
		}
		if data >= st.Size {
			break
		}
		if err := copyRange(ctx, dst, src, data, min(hole, st.Size)); err != nil {
			return 0, err
		}
		off = hole
	}
	return st.Size, Retry(func() error { return unix.Ftruncate(int(dst.Fd()), st.Size) })
}

func copyRange(ctx context.Context, dst, src *os.File, from, to int64) error {
	w, r := io.Writer(dst), io.Reader(src)
	for from < to {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, f := range [...]*os.File{dst, src} {
			if _, err := f.Seek(from, io.SeekStart); err != nil {
				return Bare(err)
			}
		}
		n, err := io.CopyN(w, r, min(to-from, copyChunk))
		from += n
		if err == io.EOF {
			return nil // it became shorter: what is left is zeros, as in the file
		}
		if err = Bare(err); w == io.Writer(dst) && CopyRangeRefused(err) { // package os does not expect EACCES
			w, r = struct{ io.Writer }{dst}, struct{ io.Reader }{src}
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}
