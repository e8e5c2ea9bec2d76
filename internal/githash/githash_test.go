package githash

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"math/rand/v2"
	"testing"
)

// TestHashes compares with the standard library, whatever pieces the data come in.
func TestHashes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		p := make([]byte, n)
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		a, b := sha1.Sum(p), sha256.Sum256(p)
		for range 3 {
			g, h := NewSHA1(), NewSHA256()
			for rest := p; len(rest) > 0; {
				k := min(len(rest), 1+r.IntN(200))
				_, _ = g.Write(rest[:k])
				_, _ = h.Write(rest[:k])
				rest = rest[k:]
			}
			if !bytes.Equal(g.Sum(), a[:]) || !bytes.Equal(h.Sum(), b[:]) {
				t.Fatalf("%d bytes", n)
			}
		}
	}
}
