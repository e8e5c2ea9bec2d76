//go:build linux

package tree

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The index of a packed session has a line with the version, the number of roots, the
// objects of each root, and the CRC-32C of all that. A directory is followed by its entries,
// in the order of their names. Numbers are varints, and strings begin with their length.
//
//	object: name, mode, uid, gid, nlink, ino, rdev, size, blocks, mtime (seconds,
//	        nanoseconds), ctime, flags, number of attributes, their names and values,
//	        then for a file the number of its content, for a symbolic link its text,
//	        for a directory the number of objects in it
//
// nsrun writes the index, but the sandboxed command chose its content, so everything that is
// used as a name, a number or a type is checked.

const (
	IndexMagic = "nsrun packed 1\n"

	flagOpaque = 1 << iota >> 1
	flagOrigin
	flagTouched // of directories: the time of reading is not there
	flagsAll    = flagOpaque | flagOrigin | flagTouched

	indexDepth = MaxPath/2 + 8 // no path is longer
	attrMost   = 64 << 10      // bytes of a value, see xattr(7)
)

var ErrIndex = errors.New("the index of the stored changes is damaged")

// A checksum is a hash.Hash.
type checksum interface {
	io.Writer
	Sum([]byte) []byte
}

func NewSum() checksum { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) }

func WriteIndex(w io.Writer, roots []*Node) error {
	sum := NewSum()
	buf := bufio.NewWriterSize(io.MultiWriter(w, sum), 64<<10)
	e := indexWriter{w: buf}
	_, _ = buf.WriteString(IndexMagic)
	e.number(uint64(len(roots)))
	for _, r := range roots {
		e.node(r)
	}
	// The buffer keeps the first error.
	if err := buf.Flush(); err != nil {
		return err
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}

type indexWriter struct {
	w   *bufio.Writer
	buf [binary.MaxVarintLen64]byte
}

func (e *indexWriter) number(v uint64) { _, _ = e.w.Write(e.buf[:binary.PutUvarint(e.buf[:], v)]) }
func (e *indexWriter) signed(v int64)  { _, _ = e.w.Write(e.buf[:binary.PutVarint(e.buf[:], v)]) }

func (e *indexWriter) text(s string) {
	e.number(uint64(len(s)))
	_, _ = e.w.WriteString(s)
}

func (e *indexWriter) node(n *Node) {
	e.text(n.Name)
	st := n.Stat
	for _, v := range []uint64{
		uint64(st.Mode), uint64(st.UID), uint64(st.GID), st.Nlink, st.Ino, st.Rdev, uint64(st.Size), uint64(st.Blocks),
	} {
		e.number(v)
	}
	e.signed(int64(st.Mtime.Sec))
	e.number(uint64(st.Mtime.Nsec))
	e.signed(st.Ctime)
	flags := uint64(0)
	if n.Opaque {
		flags |= flagOpaque
	}
	if n.Origin {
		flags |= flagOrigin
	}
	if st.IsDir() && st.Touched {
		flags |= flagTouched
	}
	e.number(flags)
	e.number(uint64(len(n.Xattrs)))
	for _, name := range slices.Sorted(maps.Keys(n.Xattrs)) {
		e.text(name)
		e.text(n.Xattrs[name])
	}
	switch st.Typ() {
	case unix.S_IFREG:
		e.number(uint64(n.Data))
	case unix.S_IFLNK:
		e.text(n.Link)
	case unix.S_IFDIR:
		e.number(uint64(len(n.Children)))
		for _, c := range n.Children {
			e.node(c)
		}
	}
}

func ReadIndex(r io.Reader) ([]*Node, error) {
	d := indexReader{r: bufio.NewReaderSize(r, 64<<10), sum: NewSum()}
	magic := make([]byte, len(IndexMagic))
	d.bytes(magic)
	if d.err == nil && string(magic) != IndexMagic {
		if strings.HasPrefix(string(magic), "nsrun packed ") {
			return nil, errors.New("this version of nsrun does not know the format of the stored changes")
		}
		return nil, ErrIndex
	}
	var roots []*Node
	for range d.number(1 << 16) {
		n := d.node(0)
		if d.err == nil && (n.Name != "." || !n.Stat.IsDir()) {
			d.err = ErrIndex
		}
		if d.err != nil {
			return nil, d.err
		}
		roots = append(roots, n)
	}
	want := d.sum.Sum(nil)
	got := make([]byte, len(want))
	d.bytes(got)
	if d.err == nil && string(got) != string(want) {
		d.err = ErrIndex
	}
	if d.err == nil {
		if _, err := d.r.ReadByte(); err != io.EOF {
			d.err = ErrIndex
		}
	}
	if d.err != nil {
		return nil, d.err
	}
	return roots, nil
}

// An indexReader reads values until the first error.
type indexReader struct {
	r   *bufio.Reader
	sum checksum
	one [1]byte
	err error
}

func (d *indexReader) fail(err error) {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = ErrIndex
	}
	if d.err == nil {
		d.err = err
	}
}

func (d *indexReader) bytes(p []byte) {
	if d.err != nil {
		return
	}
	if _, err := io.ReadFull(d.r, p); err != nil {
		d.fail(err)
		return
	}
	_, _ = d.sum.Write(p)
}

// ReadByte is for binary.ReadUvarint.
func (d *indexReader) ReadByte() (byte, error) {
	d.bytes(d.one[:])
	return d.one[0], d.err
}

// number reads a number. It is an error if it exceeds most.
func (d *indexReader) number(most uint64) uint64 {
	if d.err != nil {
		return 0
	}
	v, err := binary.ReadUvarint(d)
	if err != nil || v > most {
		d.fail(ErrIndex)
		return 0
	}
	return v
}

func (d *indexReader) signed() int64 {
	if d.err != nil {
		return 0
	}
	v, err := binary.ReadVarint(d)
	if err != nil {
		d.fail(ErrIndex)
	}
	return v
}

func (d *indexReader) text(most uint64) string {
	p := make([]byte, d.number(most))
	d.bytes(p)
	return string(p)
}

// node reads one object and everything in it.
func (d *indexReader) node(depth int) *Node {
	const most32, most64, mostInt = 1<<32 - 1, 1<<64 - 1, 1<<63 - 1
	n := &Node{Name: d.text(255)}
	n.Stat = Stat{
		Mode: uint32(d.number(most32)), UID: uint32(d.number(most32)), GID: uint32(d.number(most32)),
		Nlink: d.number(most64), Ino: d.number(most64), Rdev: d.number(most64),
		Size: int64(d.number(mostInt)), Blocks: int64(d.number(mostInt >> 9)), Dev: packedDev,
	}
	sec := d.signed()
	n.Stat.Mtime = unix.NsecToTimespec(0)
	n.Stat.Mtime.Sec = sec
	n.Stat.Mtime.Nsec = int64(d.number(999_999_999))
	n.Stat.Ctime = d.signed()
	flags := d.number(flagsAll)
	n.Opaque, n.Origin, n.Stat.Touched = flags&flagOpaque != 0, flags&flagOrigin != 0, flags&flagTouched != 0
	for range d.number(1 << 16) {
		name := d.text(255)
		value := d.text(attrMost)
		if d.err != nil {
			return n
		}
		if !WantedXattr(name) && name != CapabilityXattr || strings.ContainsRune(name, 0) {
			d.fail(ErrIndex)
			return n
		}
		if n.Xattrs == nil {
			n.Xattrs = Xattrs{}
		}
		n.Xattrs[name] = value
	}
	switch n.Stat.Typ() {
	case unix.S_IFREG:
		n.Data = int(d.number(1 << 40))
	case unix.S_IFLNK:
		if n.Link = d.text(4096); strings.ContainsRune(n.Link, 0) || n.Link == "" {
			d.fail(ErrIndex)
		}
	case unix.S_IFDIR:
		if depth == indexDepth {
			d.fail(ErrIndex)
			return n
		}
		last := ""
		for range d.number(1 << 40) {
			c := d.node(depth + 1)
			if d.err == nil && (c.Name <= last || !isEntry(c.Name)) {
				d.fail(ErrIndex)
			}
			if d.err != nil {
				return n
			}
			last = c.Name
			n.Children = append(n.Children, c)
		}
		n.seal()
	case unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK:
	default:
		d.fail(fmt.Errorf("%w: type %o", ErrIndex, n.Stat.Typ()))
	}
	return n
}

// isEntry reports whether name can be that of a directory entry.
func isEntry(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}
