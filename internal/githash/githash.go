// Package githash has SHA-1 and SHA-256 (FIPS 180-4), by which git names objects. They protect nothing here. The
// packages of the standard library bring all of its cryptography, whose initialization every start would pay for. It
// imports nothing of this module.
package githash

import (
	"encoding/binary"
	"math/bits"
)

// The lengths of hashes, in bytes.
const (
	SHA1Size   = 20
	SHA256Size = 32
)

const blockSize = 64

// A Hash takes what is written to it, and never fails. The zero Hash is not usable.
type Hash struct {
	state []uint32
	block func(state []uint32, p []byte)
	rest  []byte // less than a block
	size  uint64 // bytes so far
}

func NewSHA1() *Hash {
	return &Hash{block: sha1Block, state: []uint32{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}}
}

func NewSHA256() *Hash {
	return &Hash{block: sha256Block, state: []uint32{
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
	}}
}

func SumSHA256(p []byte) []byte {
	h := NewSHA256()
	h.add(p)
	return h.Sum()
}

func (h *Hash) Write(p []byte) (int, error) {
	n := len(p)
	h.add(p)
	return n, nil
}

func (h *Hash) add(p []byte) {
	h.size += uint64(len(p))
	if len(h.rest) > 0 {
		n := min(blockSize-len(h.rest), len(p))
		h.rest = append(h.rest, p[:n]...)
		p = p[n:]
		if len(h.rest) < blockSize {
			return
		}
		h.block(h.state, h.rest)
		h.rest = h.rest[:0]
	}
	n := len(p) - len(p)%blockSize
	h.block(h.state, p[:n])
	h.rest = append(h.rest, p[n:]...)
}

func (h *Hash) Sum() []byte {
	size := h.size
	pad := make([]byte, (2*blockSize-9-size%blockSize)%blockSize+9)
	pad[0] = 0x80
	binary.BigEndian.PutUint64(pad[len(pad)-8:], size*8)
	h.add(pad)
	var out []byte
	for _, v := range h.state {
		out = binary.BigEndian.AppendUint32(out, v)
	}
	return out
}

func sha1Block(s []uint32, p []byte) {
	var w [80]uint32
	for ; len(p) >= blockSize; p = p[blockSize:] {
		for i := range 16 {
			w[i] = binary.BigEndian.Uint32(p[4*i:])
		}
		for i := 16; i < 80; i++ {
			w[i] = bits.RotateLeft32(w[i-3]^w[i-8]^w[i-14]^w[i-16], 1)
		}
		a, b, c, d, e := s[0], s[1], s[2], s[3], s[4]
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
		s[0], s[1], s[2], s[3], s[4] = s[0]+a, s[1]+b, s[2]+c, s[3]+d, s[4]+e
	}
}

// sha256Keys are the first 32 bits behind the point of the cube roots of the first 64 primes.
var sha256Keys = [64]uint32{
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}

func sha256Block(s []uint32, p []byte) {
	var w [64]uint32
	for ; len(p) >= blockSize; p = p[blockSize:] {
		for i := range 16 {
			w[i] = binary.BigEndian.Uint32(p[4*i:])
		}
		for i := 16; i < 64; i++ {
			x, y := w[i-15], w[i-2]
			w[i] = w[i-16] + w[i-7] +
				(bits.RotateLeft32(x, -7) ^ bits.RotateLeft32(x, -18) ^ x>>3) +
				(bits.RotateLeft32(y, -17) ^ bits.RotateLeft32(y, -19) ^ y>>10)
		}
		v := [8]uint32(s)
		for i := range w {
			a, e := v[0], v[4]
			t := v[7] + (bits.RotateLeft32(e, -6) ^ bits.RotateLeft32(e, -11) ^ bits.RotateLeft32(e, -25)) +
				(e&v[5] ^ ^e&v[6]) + sha256Keys[i] + w[i]
			u := (bits.RotateLeft32(a, -2) ^ bits.RotateLeft32(a, -13) ^ bits.RotateLeft32(a, -22)) +
				(a&v[1] ^ a&v[2] ^ v[1]&v[2])
			v = [8]uint32{t + u, a, v[1], v[2], v[3] + t, e, v[5], v[6]}
		}
		for i := range s {
			s[i] += v[i]
		}
	}
}
