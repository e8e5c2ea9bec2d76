package textdiff

import (
	"bytes"
	"hash/maphash"
)

// split cuts a text into lines, each with its newline, which the last one may lack.
func split(text []byte) [][]byte {
	if len(text) == 0 {
		return nil
	}
	n := bytes.Count(text, newline)
	if text[len(text)-1] != '\n' {
		n++
	}
	lines := make([][]byte, 0, n)
	for len(text) > 0 {
		end := bytes.IndexByte(text, '\n') + 1
		if end == 0 {
			end = len(text)
		}
		lines = append(lines, text[:end:end])
		text = text[end:]
	}
	return lines
}

// A table gives equal lines equal numbers, so that comparing two lines costs the same
// however long they are. It keeps the lines, not copies of them.
type table struct {
	seed  maphash.Seed
	first map[uint64]rune // by hash: the number of a line
	lines [][]byte        // by number
	next  []rune          // by number: another line with that hash, or -1
}

func newTable(size int) *table {
	return &table{seed: maphash.MakeSeed(), first: make(map[uint64]rune, size)}
}

func (t *table) number(line []byte) rune {
	h := maphash.Bytes(t.seed, line)
	first, ok := t.first[h]
	if !ok {
		first = -1
	}
	for n := first; n >= 0; n = t.next[n] {
		if bytes.Equal(t.lines[n], line) {
			return n
		}
	}
	n := rune(len(t.lines))
	t.lines = append(t.lines, line)
	t.next = append(t.next, first)
	t.first[h] = n
	return n
}

func (t *table) numbers(lines [][]byte) []rune {
	list := make([]rune, len(lines))
	for i, line := range lines {
		list[i] = t.number(line)
	}
	return list
}
