//go:build linux

package project

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
)

// bbolt trusts its file. A page that is its own ancestor would be descended into for ever,
// which ends in a stack overflow that nothing recovers from; so all pages are looked at
// before bbolt sees them, once for each process that opens a registry.
//
// The format (bbolt's internal/common, version 2), in the machine's byte order:
//
//	page    id u64, flags u16, count u16, overflow u32, then count elements
//	branch  pos u32, ksize u32, page u64
//	leaf    flags u32, pos u32, ksize u32, vsize u32; pos counts from the element's start
//	bucket  root page u64, sequence u64; root 0: a page follows, inside the value
//	meta    magic u32, version u32, page size u32, flags u32, root bucket, freelist u64,
//	        pages u64, transaction u64, FNV-64a of all of these
const (
	pageHeader  = 16
	elementSize = 16
	metaSize    = 64

	branchPage = 0x01
	leafPage   = 0x02
	metaPage   = 0x04
	freePage   = 0x10

	bucketFlag = 0x01
	initialTx  = 1 // of the later one of the two meta pages in a new file
	noFreelist = ^uint64(0)
	boltMagic  = 0xED0CDAED

	maxDB    = 4 << 30 // bytes; far beyond what the limits of the log let it be
	maxDepth = 48      // of pages below each other, all buckets together
)

type boltFile struct {
	data  []byte
	size  uint64 // of a page
	pages uint64
	seen  []bool
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// errUnbegun means that the file never had a transaction: its first pages were not written whole, because the disk was
// full. There is nothing in it to lose.
var errUnbegun = errors.New("the database was not begun")

// verify reports whether data is a database in which bbolt finds its way.
func verify(data []byte) error {
	meta, ok := newestMeta(data)
	if !ok {
		return damaged("no valid meta page")
	}
	at := binary.NativeEndian
	b := &boltFile{data: data, size: uint64(at.Uint32(meta[8:])), pages: at.Uint64(meta[40:])}
	if short := b.pages > uint64(len(data))/b.size; short && at.Uint64(meta[48:]) <= initialTx {
		return errUnbegun
	} else if short || b.pages < 2 {
		return damaged("it should have %d pages, and is shorter", b.pages)
	}
	b.seen = make([]bool, b.pages)
	if err := b.page(at.Uint64(meta[16:]), 0); err != nil {
		return err
	}
	return b.freelist(at.Uint64(meta[32:]))
}

// newestMeta returns the meta that bbolt would go by.
func newestMeta(data []byte) (meta []byte, ok bool) {
	at := binary.NativeEndian
	try := func(off uint64) []byte {
		if off+pageHeader+metaSize > uint64(len(data)) {
			return nil
		}
		m := data[off+pageHeader:][:metaSize]
		sum := fnv.New64a()
		_, _ = sum.Write(m[:56])
		size := at.Uint32(m[8:])
		if at.Uint32(m) != boltMagic || at.Uint32(m[4:]) != 2 || at.Uint64(m[56:]) != sum.Sum64() ||
			size < 1024 || size > 64<<10 || size&(size-1) != 0 {
			return nil
		}
		return m
	}
	first := try(0)
	if first != nil {
		meta = first
		if second := try(uint64(at.Uint32(first[8:]))); second != nil && at.Uint64(second[48:]) > at.Uint64(first[48:]) {
			meta = second
		}
		return meta, true
	}
	for off := uint64(1024); off <= 64<<10; off *= 2 {
		if m := try(off); m != nil && uint64(at.Uint32(m[8:])) == off {
			return m, true
		}
	}
	return nil, false
}

// bytes are the bytes of the page id with those that it overflows into.
func (b *boltFile) bytes(id uint64) ([]byte, error) {
	if id < 2 || id >= b.pages {
		return nil, damaged("there is no page %d", id)
	}
	p := b.data[id*b.size:]
	over := uint64(binary.NativeEndian.Uint32(p[12:]))
	if over >= b.pages-id {
		return nil, damaged("page %d is too long", id)
	}
	if got := binary.NativeEndian.Uint64(p); got != id {
		return nil, damaged("page %d says that it is %d", id, got)
	}
	for i := id; i <= id+over; i++ {
		if b.seen[i] {
			return nil, damaged("page %d is in two places", i)
		}
		b.seen[i] = true
	}
	return p[:(over+1)*b.size], nil
}

func (b *boltFile) page(id uint64, depth int) error {
	if depth > maxDepth {
		return damaged("its pages are %d deep", depth)
	}
	p, err := b.bytes(id)
	if err != nil {
		return err
	}
	return b.elements(p, id, depth)
}

func (b *boltFile) elements(p []byte, id uint64, depth int) error {
	at := binary.NativeEndian
	flags, count := at.Uint16(p[8:]), uint64(at.Uint16(p[10:]))
	if pageHeader+count*elementSize > uint64(len(p)) {
		return damaged("page %d has too many elements", id)
	}
	if flags != branchPage && flags != leafPage {
		return damaged("page %d is of type %#x", id, flags)
	}
	if flags == branchPage && count == 0 {
		return damaged("page %d has no elements", id)
	}
	var last []byte
	for i := range count {
		off := pageHeader + i*elementSize
		e := p[off:]
		pos, ksize, vsize := uint64(at.Uint32(e)), uint64(at.Uint32(e[4:])), uint64(0)
		if flags == leafPage {
			pos, ksize, vsize = uint64(at.Uint32(e[4:])), uint64(at.Uint32(e[8:])), uint64(at.Uint32(e[12:]))
		}
		if off+pos+ksize+vsize > uint64(len(p)) {
			return damaged("element %d of page %d is outside of it", i, id)
		}
		key, value := e[pos:][:ksize], e[pos+ksize:][:vsize]
		if i > 0 && string(last) >= string(key) {
			return damaged("element %d of page %d is out of order", i, id)
		}
		last = key
		if flags == branchPage {
			if err := b.page(at.Uint64(e[8:]), depth+1); err != nil {
				return err
			}
			continue
		}
		if at.Uint32(e)&bucketFlag == 0 {
			continue
		}
		if len(value) < 16 {
			return damaged("bucket %d of page %d is cut short", i, id)
		}
		root, err := at.Uint64(value), error(nil)
		switch {
		case root != 0:
			err = b.page(root, depth+1)
		case len(value) < 16+pageHeader || depth >= maxDepth:
			err = damaged("bucket %d of page %d is cut short", i, id)
		default:
			err = b.elements(value[16:], id, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// freelist checks that no page that is used is said to be free: it would be written over.
func (b *boltFile) freelist(id uint64) error {
	if id == noFreelist {
		return nil
	}
	p, err := b.bytes(id)
	if err != nil {
		return err
	}
	at := binary.NativeEndian
	if flags := at.Uint16(p[8:]); flags != freePage {
		return damaged("page %d is of type %#x", id, flags)
	}
	count, list := uint64(at.Uint16(p[10:])), p[pageHeader:]
	if count == 0xffff {
		count, list = at.Uint64(list), list[8:]
	}
	if count > uint64(len(list))/8 {
		return damaged("page %d has too many elements", id)
	}
	for i := range count {
		free := at.Uint64(list[8*i:])
		if free < 2 || free >= b.pages || b.seen[free] {
			return damaged("page %d cannot be free", free)
		}
		b.seen[free] = true
	}
	return nil
}
