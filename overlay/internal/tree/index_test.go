//go:build linux

package tree

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"
)

func FuzzReadIndex(f *testing.F) {
	var b bytes.Buffer
	file := &Node{Name: "f", Stat: Stat{Mode: unix.S_IFREG | 0o644, Size: 3, Nlink: 1}, Xattrs: Xattrs{"user.x": "1"}, Data: 7}
	link := &Node{Name: "l", Stat: Stat{Mode: unix.S_IFLNK | 0o777}, Link: "a"}
	white := &Node{Name: "w", Stat: Stat{Mode: unix.S_IFCHR}}
	root := &Node{Name: ".", Stat: Stat{Mode: unix.S_IFDIR | 0o755, Ctime: -1}, Opaque: true, Children: []*Node{file, link, white}}
	if err := WriteIndex(&b, []*Node{root, root}); err != nil {
		f.Fatal(err)
	}
	roots, err := ReadIndex(bytes.NewReader(b.Bytes()))
	if err != nil || len(roots) != 2 || roots[1].Child("f").Data != 7 || !roots[0].Opaque {
		f.Fatal(roots, err)
	}
	f.Add(b.Bytes()[:b.Len()-4])
	f.Add([]byte(IndexMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		data = appendSum(data)
		roots, err := ReadIndex(bytes.NewReader(data))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := WriteIndex(&again, roots); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadIndex(&again); err != nil {
			t.Fatal(err)
		}
	})
}

func appendSum(data []byte) []byte {
	sum := NewSum()
	_, _ = sum.Write(data)
	return sum.Sum(bytes.Clone(data))
}
