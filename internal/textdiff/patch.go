package textdiff

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const (
	Regular    = 0o100644
	Executable = 0o100755
	Symlink    = 0o120000

	typeMask = 0o170000
)

// MaxGitPatch is how large a patch git apply reads, in bytes.
const MaxGitPatch = 1023 << 20

type File struct {
	// OldPath and NewPath are relative to the top, with slashes. If both sides exist they are equal: patches
	// contain no renames.
	OldPath, NewPath string

	// OldMode and NewMode are modes of git. Zero: the side does not exist.
	OldMode, NewMode uint32

	Old, New Content // of a side without a mode they do not matter
}

// Content is what one side of a file holds. The zero Content is empty.
type Content struct {
	Size int64 // in bytes

	// Open opens the content. It may be called twice, and must yield Size bytes both times. Nil: it is empty.
	Open func() (io.ReadCloser, error)
}

func Bytes(data []byte) Content {
	return Content{int64(len(data)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// ErrChanged says that a content was not as described, or differed when read again.
var ErrChanged = errors.New("it changed while it was being read")

// Read returns all of c, which should be no larger than MaxBytes.
func (c Content) Read() ([]byte, error) {
	data := make([]byte, c.Size)
	err := c.open(func(r io.Reader) error {
		_, err := io.ReadFull(r, data)
		return err
	})
	return data, err
}

func (c Content) open(read func(r io.Reader) error) error {
	if c.Open == nil {
		return read(strings.NewReader(""))
	}
	r, err := c.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	err = read(r)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return ErrChanged
	}
	if err != nil {
		return err
	}
	var more [1]byte
	if n, err := r.Read(more[:]); n > 0 {
		return ErrChanged
	} else if err != nil && err != io.EOF {
		return err
	}
	return nil
}

// A Patch is written file by file, in the form that git apply takes. Text is compared by lines. Other contents, and
// those above MaxBytes, are written whole, for both directions, without being read into memory.
type Patch struct {
	// NoBinaries replaces binary contents by a line with their sizes: for people, not for git apply.
	NoBinaries bool

	w       io.Writer
	zip     *zlib.Writer // nil until it is first needed
	written int64
}

// NewPatch returns an empty patch. Writes are not buffered: w should be.
func NewPatch(w io.Writer) *Patch { return &Patch{w: w} }

func (p *Patch) Written() int64 { return p.written }

func (p *Patch) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.written += int64(n)
	return n, err
}

// Break ends an incomplete patch in such a way that git apply refuses all of it.
func (p *Patch) Break() error {
	_, err := io.WriteString(p, "\n--- a/incomplete\n+++ b/incomplete\n@@ -1 +1 @@\n")
	return err
}

// Add writes one file, or nothing if both sides are equal. A file that becomes another type of object is deleted and
// created again, as git does. After an error call Break.
func (p *Patch) Add(f File) error {
	if f.OldMode != 0 && f.NewMode != 0 && f.OldMode&typeMask != f.NewMode&typeMask {
		if err := p.Add(File{OldPath: f.OldPath, OldMode: f.OldMode, Old: f.Old}); err != nil {
			return err
		}
		return p.Add(File{NewPath: f.NewPath, NewMode: f.NewMode, New: f.New})
	}
	if f.OldMode == 0 {
		f.OldPath, f.Old = f.NewPath, Content{}
	}
	if f.NewMode == 0 {
		f.NewPath, f.New = f.OldPath, Content{}
	}
	if f.Old.Size > MaxBytes || f.New.Size > MaxBytes {
		return p.large(f)
	}
	old, err := f.Old.Read()
	if err != nil {
		return err
	}
	new, err := f.New.Read()
	if err != nil {
		return err
	}
	hash := func(mode uint32, data []byte) string {
		if mode == 0 {
			return noHash
		}
		h, _ := blobHash(int64(len(data)), func(w io.Writer) error { _, err := w.Write(data); return err })
		return h
	}
	oldHash, newHash := hash(f.OldMode, old), hash(f.NewMode, new)
	if err := p.header(f, oldHash, newHash); err != nil || bytes.Equal(old, new) {
		return err
	}
	if !Comparable(old, new) {
		if p.NoBinaries {
			return p.differ(f)
		}
		return p.binary(Bytes(old), Bytes(new), oldHash, newHash)
	}
	from, to := Quote("a/"+f.OldPath), Quote("b/"+f.NewPath)
	// A tab says where a name with spaces ends.
	if strings.Contains(f.OldPath, " ") {
		from += "\t"
	}
	if strings.Contains(f.NewPath, " ") {
		to += "\t"
	}
	if f.OldMode == 0 {
		from = "/dev/null"
	}
	if f.NewMode == 0 {
		to = "/dev/null"
	}
	if _, err := fmt.Fprintf(p, "--- %s\n+++ %s\n", from, to); err != nil {
		return err
	}
	for h := range Hunks(old, new) {
		if err := h.write(p); err != nil {
			return err
		}
	}
	return nil
}

func (p *Patch) header(f File, oldHash, newHash string) error {
	if f.OldMode == f.NewMode && oldHash == newHash {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "diff --git %s %s\n", Quote("a/"+f.OldPath), Quote("b/"+f.NewPath))
	same := ""
	switch {
	case f.OldMode == 0:
		fmt.Fprintf(&b, "new file mode %06o\n", f.NewMode)
	case f.NewMode == 0:
		fmt.Fprintf(&b, "deleted file mode %06o\n", f.OldMode)
	case f.OldMode != f.NewMode:
		fmt.Fprintf(&b, "old mode %06o\nnew mode %06o\n", f.OldMode, f.NewMode)
	default:
		same = fmt.Sprintf(" %06o", f.OldMode)
	}
	if oldHash != newHash && newHash != unread {
		fmt.Fprintf(&b, "index %s..%s%s\n", oldHash, newHash, same)
	}
	_, err := io.WriteString(p, b.String())
	return err
}

// unread stands for the hash of what was not read.
const unread = "unread"

// large writes a file without reading all of it at once. For people it does not read it: a sparse file can have any
// size.
func (p *Patch) large(f File) error {
	if p.NoBinaries {
		if err := p.header(f, "", unread); err != nil {
			return err
		}
		return p.differ(f)
	}
	hash := func(mode uint32, c Content) (string, error) {
		if mode == 0 {
			return noHash, nil
		}
		return blobHash(c.Size, func(w io.Writer) error {
			return c.open(func(r io.Reader) error { _, err := io.CopyN(w, r, c.Size); return err })
		})
	}
	oldHash, err := hash(f.OldMode, f.Old)
	if err != nil {
		return err
	}
	newHash, err := hash(f.NewMode, f.New)
	if err != nil {
		return err
	}
	if err := p.header(f, oldHash, newHash); err != nil || oldHash == newHash {
		return err
	}
	return p.binary(f.Old, f.New, oldHash, newHash)
}

func (p *Patch) differ(f File) error {
	side := func(mode uint32, prefix, path string, c Content) (name, size string) {
		if mode == 0 {
			return "/dev/null", "none"
		}
		return Quote(prefix + path), strconv.FormatInt(c.Size, 10)
	}
	from, before := side(f.OldMode, "a/", f.OldPath, f.Old)
	to, after := side(f.NewMode, "b/", f.NewPath, f.New)
	_, err := fmt.Fprintf(p, "Binary files %s and %s differ (%s -> %s bytes)\n", from, to, before, after)
	return err
}

// binary writes both contents, one to apply and one to take back.
func (p *Patch) binary(old, new Content, oldHash, newHash string) error {
	if _, err := io.WriteString(p, "GIT binary patch\n"); err != nil {
		return err
	}
	if err := p.literal(new, newHash); err != nil {
		return err
	}
	return p.literal(old, oldHash)
}

func (p *Patch) literal(c Content, hash string) error {
	if _, err := fmt.Fprintf(p, "literal %d\n", c.Size); err != nil {
		return err
	}
	lines := &base85{w: p}
	if p.zip == nil {
		p.zip = zlib.NewWriter(lines)
	} else {
		p.zip.Reset(lines)
	}
	done := int64(0)
	again, failed := blobHash(c.Size, func(w io.Writer) error {
		return c.open(func(r io.Reader) (err error) {
			done, err = io.CopyN(io.MultiWriter(w, p.zip), r, c.Size)
			return err
		})
	})
	if failed == nil && hash != noHash && again != hash {
		failed = ErrChanged
	}
	// Git takes a damaged binary patch for the end of all patches, without an error, so that only earlier files
	// would change. So the block is completed even if its content is wrong.
	if _, err := io.CopyN(p.zip, zeros{}, c.Size-done); err != nil {
		return err
	}
	if err := p.zip.Close(); err != nil {
		return err
	}
	if err := lines.flush(); err != nil {
		return err
	}
	if _, err := io.WriteString(p, "\n"); err != nil {
		return err
	}
	return failed
}

// zeros is a reader without an end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// base85 writes lines of git's binary patches: a letter for the length, then five characters for every four bytes.
type base85 struct {
	w   io.Writer
	buf [52]byte
	n   int
	out []byte
}

const digits85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

func (b *base85) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0; {
		n := copy(b.buf[b.n:], rest)
		b.n += n
		rest = rest[n:]
		if b.n == len(b.buf) {
			b.line()
			if len(b.out) > 32<<10 {
				if _, err := b.w.Write(b.out); err != nil {
					return 0, err
				}
				b.out = b.out[:0]
			}
		}
	}
	return len(data), nil
}

func (b *base85) line() {
	length := byte('A' + b.n - 1)
	if b.n > 26 {
		length = byte('a' + b.n - 27)
	}
	b.out = append(b.out, length)
	clear(b.buf[b.n:])
	for i := 0; i < b.n; i += 4 {
		v := binary.BigEndian.Uint32(b.buf[i:])
		var group [5]byte
		for k := 4; k >= 0; k-- {
			group[k] = digits85[v%85]
			v /= 85
		}
		b.out = append(b.out, group[:]...)
	}
	b.out = append(b.out, '\n')
	b.n = 0
}

func (b *base85) flush() error {
	if b.n > 0 {
		b.line()
	}
	_, err := b.w.Write(b.out)
	b.out = nil
	return err
}
