//go:build linux

package project

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// What the registry costs a run that changed nothing.
func BenchmarkRecordNothing(b *testing.B) {
	p := newPlace(b)
	e := Execution{Command: []string{"true"}, Dir: p.root, Roots: []string{p.root}, Began: time.Now(), Ended: time.Now(), Network: "none", Backend: "native", Engine: "overlay"}
	for b.Loop() {
		if _, err := p.Record(ctx, e, nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// The same in a new process: Open, one line, Close.
func BenchmarkOpenRecordClose(b *testing.B) {
	p := newPlace(b)
	e := Execution{Command: []string{"true"}, Dir: p.root, Roots: []string{p.root}, Began: time.Now(), Ended: time.Now()}
	for b.Loop() {
		r := Open(p.o)
		if _, err := r.Record(ctx, e, nil, nil); err != nil {
			b.Fatal(err)
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		if err := Open(Options{}).Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// A registered file whose backup of today is there already.
func BenchmarkRecordOneBackedUp(b *testing.B) {
	p := newPlace(b)
	p.tree("a: one")
	p.scan()
	c := p.change(Modified, "a")
	p.record(Execution{}, c)
	for b.Loop() {
		p.record(Execution{}, c)
	}
}

// A new backup each time: the disk is waited for.
func BenchmarkRecordOneBackup(b *testing.B) {
	p := newPlace(b)
	n := 0
	for range 2000 {
		p.tree(fmt.Sprintf("f%d: one", n))
		n++
	}
	p.scan()
	i := 0
	for b.Loop() {
		p.record(Execution{}, p.change(Modified, fmt.Sprintf("f%d", i%n)))
		i++
	}
}

// A file that is not registered yet: a transaction.
func BenchmarkRecordOneNew(b *testing.B) {
	p := newPlace(b)
	i := 0
	for b.Loop() {
		p.record(Execution{}, p.change(Added, fmt.Sprint("n", i)))
		i++
	}
}

func BenchmarkRecord10000New(b *testing.B) {
	p := newPlace(b)
	i := 0
	for b.Loop() {
		var changes []Change
		for range 10_000 {
			changes = append(changes, p.change(Added, fmt.Sprint("objects/n", i)))
			i++
		}
		p.record(Execution{}, changes...)
	}
}

func BenchmarkScan10000Unchanged(b *testing.B) {
	p := newPlace(b)
	for i := range 100 {
		for k := range 100 {
			p.tree(fmt.Sprintf("d%d/f%d: x", i, k))
		}
	}
	p.scan()
	for b.Loop() {
		p.scan()
	}
}

func BenchmarkView(b *testing.B) {
	p := newPlace(b)
	p.tree("a: one")
	p.scan()
	for b.Loop() {
		if err := p.viewAsIs(func(*bbolt.Tx) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	p := newPlace(b)
	p.tree("a: one")
	p.scan()
	for b.Loop() {
		if err := p.update(func(tx *bbolt.Tx) error { return bucket(tx, metaBucket).Put([]byte("x"), nil) }); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerify looks at a database of 30,000 files.
func BenchmarkVerify(b *testing.B) {
	p := newPlace(b)
	for i := range 3 {
		var changes []Change
		for k := range 10_000 {
			changes = append(changes, p.change(Added, fmt.Sprintf("d%d/file%d.go", i, k)))
		}
		p.record(Execution{}, changes...)
	}
	p.must(p.Flush())
	f, err := os.Open(p.o.Dir + "/" + dbName)
	p.must(err)
	defer f.Close()
	fi, _ := f.Stat()
	b.SetBytes(fi.Size())
	for b.Loop() {
		if err := verifyFile(f); err != nil {
			b.Fatal(err)
		}
	}
}
