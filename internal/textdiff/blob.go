package textdiff

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/bits"
	"strings"
)

// blobHash is what git calls the object with the content that read passes on.
func blobHash(size int64, read func(w io.Writer) error) (string, error) {
	h := newSHA1()
	fmt.Fprintf(h, "blob %d\x00", size)
	if err := read(h); err != nil {
		return "", err
	}
	sum := h.sum()
	return hex.EncodeToString(sum[:]), nil
}

var noHash = strings.Repeat("0", 2*20)

// sha1 is the hash by which git finds objects; it protects nothing here. The standard
// library's brings all of its cryptography along, the initialisation of which every
// start of every command would pay.
type sha1 struct {
	h   [5]uint32
	buf [64]byte
	n   int
	len uint64 // bytes
}

func newSHA1() *sha1 {
	return &sha1{h: [5]uint32{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}}
}

func (s *sha1) Write(data []byte) (int, error) {
	s.len += uint64(len(data))
	rest := data
	if s.n > 0 {
		n := copy(s.buf[s.n:], rest)
		s.n, rest = s.n+n, rest[n:]
		if s.n < len(s.buf) {
			return len(data), nil
		}
		s.block(s.buf[:])
	}
	for ; len(rest) >= 64; rest = rest[64:] {
		s.block(rest[:64])
	}
	s.n = copy(s.buf[:], rest)
	return len(data), nil
}

// sum ends the hash.
func (s *sha1) sum() (sum [20]byte) {
	length := s.len * 8
	pad := append([]byte{0x80}, make([]byte, (119-s.n)%64)...)
	_, _ = s.Write(binary.BigEndian.AppendUint64(pad, length))
	for i, v := range s.h {
		binary.BigEndian.PutUint32(sum[4*i:], v)
	}
	return sum
}

func (s *sha1) block(p []byte) {
	var w [80]uint32
	for i := range 16 {
		w[i] = binary.BigEndian.Uint32(p[4*i:])
	}
	for i := 16; i < 80; i++ {
		w[i] = bits.RotateLeft32(w[i-3]^w[i-8]^w[i-14]^w[i-16], 1)
	}
	a, b, c, d, e := s.h[0], s.h[1], s.h[2], s.h[3], s.h[4]
	for _, v := range w[0:20] {
		a, b, c, d, e = bits.RotateLeft32(a, 5)+(b&c|^b&d)+e+0x5a827999+v, a, bits.RotateLeft32(b, 30), c, d
	}
	for _, v := range w[20:40] {
		a, b, c, d, e = bits.RotateLeft32(a, 5)+(b^c^d)+e+0x6ed9eba1+v, a, bits.RotateLeft32(b, 30), c, d
	}
	for _, v := range w[40:60] {
		a, b, c, d, e = bits.RotateLeft32(a, 5)+(b&c|b&d|c&d)+e+0x8f1bbcdc+v, a, bits.RotateLeft32(b, 30), c, d
	}
	for _, v := range w[60:80] {
		a, b, c, d, e = bits.RotateLeft32(a, 5)+(b^c^d)+e+0xca62c1d6+v, a, bits.RotateLeft32(b, 30), c, d
	}
	s.h[0] += a
	s.h[1] += b
	s.h[2] += c
	s.h[3] += d
	s.h[4] += e
}
