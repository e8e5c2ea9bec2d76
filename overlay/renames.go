//go:build linux

package overlay

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/paths"
)

// Limits of the search for renames. It ignores what exceeds them.
const (
	maxHashed   = 1 << 30  // bytes of files of equal size, which are read for that
	maxSimilar  = 32 << 20 // bytes of texts that may be similar
	maxText     = 1 << 20  // bytes of one of them
	maxCompared = 10_000   // pairs of them
	maxLines    = 20 << 20 // lines of these that are looked up in the other text of the pair
	minAlike    = 50       // percent
)

// Renames finds files and directories among changes that were moved: equal files; directories in which everything is
// equal, as one Rename; and texts that are equal by at least a half. changes must be in the order of Changes. The work
// is bounded, so it does not find all moves among many or large changes. It never reports empty files as moved.
func (s *Session) Renames(changes []Change) ([]Rename, error) {
	var all []Rename
	for len(changes) > 0 {
		n := slices.IndexFunc(changes, func(c Change) bool { return c.Root != changes[0].Root })
		if n < 0 {
			n = len(changes)
		}
		r := renamer{s: s, root: changes[0].Root, seed: maphash.MakeSeed(), seed2: maphash.MakeSeed(), hashed: maxHashed, similar: maxSimilar, lines: maxLines}
		if err := r.find(changes[:n]); err != nil {
			return nil, err
		}
		r.keepRunning(changes[:n])
		slices.SortFunc(r.found, func(a, b Rename) int { return paths.Compare(a.To, b.To) })
		all = append(all, r.found...)
		changes = changes[n:]
	}
	return all, nil
}

// keepRunning excludes what would run later at its new place, and what is protected: these must stay visible.
func (r *renamer) keepRunning(changes []Change) {
	holds := map[string]bool{} // they, and the directories above them
	for _, c := range changes {
		for at := c.Path; c.Runs != "" && !holds[at]; at = path.Dir(at) {
			holds[at] = true
		}
	}
	r.found = slices.DeleteFunc(r.found, func(m Rename) bool { return holds[m.To] || holds[m.From] })
}

// A renamer looks for the renames of one root.
type renamer struct {
	s       *Session
	root    string
	seed    maphash.Seed
	seed2   maphash.Seed
	gone    []*moved // in path order
	come    []*moved
	found   []Rename
	hashed  int64 // bytes that may still be read
	similar int64
	lines   int // that may still be compared
}

// A moved is an object that may have been moved.
type moved struct {
	Change
	side  Side
	below []*moved // what is in a directory, directly
	files int      // how many files are in a directory, at any depth
	print uint64   // equal for directories with the same names, types and sizes in them
	used  bool     // its rename is known, or that of a directory above
	sum   string   // of the content; empty until it is needed
	lines map[uint64]int
	size  int // bytes of lines
}

func (r *renamer) find(changes []Change) error {
	for _, c := range changes {
		if c.Kind == Added {
			r.come = append(r.come, &moved{Change: c, side: After})
		}
	}
	if len(r.come) == 0 {
		return nil
	}
	for _, c := range changes {
		if c.Kind != Deleted {
			continue
		}
		r.gone = append(r.gone, &moved{Change: c, side: Before})
		for below, err := range r.s.Below(c) {
			if err != nil {
				return err
			}
			r.gone = append(r.gone, &moved{Change: below, side: Before})
		}
	}
	r.nest(r.gone)
	r.nest(r.come)
	return r.pair()
}

// pair finds the renames among gone and come.
func (r *renamer) pair() error {
	for _, step := range [...]func() error{r.directories, r.equal, r.alike} {
		if len(r.gone) == 0 {
			return nil
		}
		if err := step(); err != nil {
			return err
		}
		used := func(m *moved) bool { return m.used }
		r.gone, r.come = slices.DeleteFunc(r.gone, used), slices.DeleteFunc(r.come, used)
	}
	return nil
}

// nest puts objects into their directories, and computes the fingerprints of those.
func (r *renamer) nest(list []*moved) {
	dirs := map[string]*moved{}
	for _, m := range list {
		if up := dirs[path.Dir(m.Path)]; up != nil {
			up.below = append(up.below, m)
		}
		if m.Mode.IsDir() {
			dirs[m.Path] = m
		}
	}
	for _, m := range slices.Backward(list) {
		var h maphash.Hash
		h.SetSeed(r.seed)
		number := func(n uint64) { _, _ = h.Write(binary.LittleEndian.AppendUint64(nil, n)) }
		number(uint64(m.Mode.Type()))
		number(uint64(m.Size))
		for _, b := range m.below {
			_, _ = h.WriteString(path.Base(b.Path) + "/")
			number(b.print)
			m.files += b.files
		}
		if m.Mode.IsRegular() {
			m.files = 1
		}
		m.print = h.Sum64()
	}
}

func (r *renamer) add(from, to *moved, similarity int) {
	r.found = append(r.found, Rename{Root: r.root, From: from.Path, To: to.Path, Directory: to.Mode.IsDir(), Similarity: similarity})
	from.use()
	to.use()
}

func (m *moved) use() {
	m.used = true
	for _, b := range m.below {
		b.use()
	}
}

// directories finds directories that were moved as a whole, the outermost ones.
func (r *renamer) directories() error {
	byPrint := map[uint64]*pool{}
	for _, m := range r.gone {
		if m.Mode.IsDir() && m.files > 0 {
			addTo(byPrint, m.print, m)
		}
	}
	for _, to := range r.come {
		if to.used || !to.Mode.IsDir() || to.files == 0 {
			continue
		}
		for _, from := range byPrint[to.print].best(to) {
			same, err := r.sameTree(from, to)
			if err != nil {
				return err
			}
			if same {
				r.add(from, to, 100)
				break
			}
		}
	}
	return nil
}

// A pool has objects that seem to be equal, in path order. The nil pool has none.
type pool struct {
	all   queue
	named map[string]*queue // by the last element of the path
}

func addTo[K comparable](pools map[K]*pool, key K, m *moved) {
	p := pools[key]
	if p == nil {
		p = &pool{named: map[string]*queue{}}
		pools[key] = p
	}
	name := path.Base(m.Path)
	if p.named[name] == nil {
		p.named[name] = new(queue)
	}
	p.all, *p.named[name] = append(p.all, m), append(*p.named[name], m)
}

// best returns the first few unused objects; those with the name of to come first.
func (p *pool) best(to *moved) (list []*moved) {
	const most = 8
	if p == nil {
		return nil
	}
	name := path.Base(to.Path)
	if q := p.named[name]; q != nil {
		list = q.first(most)
	}
	for _, m := range p.all.first(most + len(list)) {
		if len(list) < most && path.Base(m.Path) != name {
			list = append(list, m)
		}
	}
	return list
}

// A queue forgets used objects as soon as it comes upon them, so that not each look has to pass them again.
type queue []*moved

// first returns the first unused objects, at most most.
func (q *queue) first(most int) (list []*moved) {
	n := 0
	for ; n < len(*q) && len(list) < most; n++ {
		if m := (*q)[n]; !m.used {
			list = append(list, m)
		}
	}
	*q = (*q)[n-len(list):]
	copy(*q, list)
	return list
}

// sameTree compares everything in two directories with equal fingerprints.
func (r *renamer) sameTree(a, b *moved) (bool, error) {
	if a.used || b.used || len(a.below) != len(b.below) || a.Mode.Type() != b.Mode.Type() {
		return false, nil
	}
	switch {
	case a.Mode.IsDir():
		for i := range a.below {
			if path.Base(a.below[i].Path) != path.Base(b.below[i].Path) {
				return false, nil
			}
			if same, err := r.sameTree(a.below[i], b.below[i]); !same || err != nil {
				return false, err
			}
		}
	case a.Mode.IsRegular():
		return r.sameFile(a, b)
	case a.Mode.Type() == fs.ModeSymlink:
		old, err := r.s.Link(a.Change, Before)
		if err != nil {
			return false, skippable(err)
		}
		text, err := r.s.Link(b.Change, After)
		return err == nil && old == text, skippable(err)
	}
	return true, nil
}

// skippable returns nil for an error that only means that one object cannot be compared.
func skippable(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrMoved) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (r *renamer) sameFile(a, b *moved) (bool, error) {
	if a.Size != b.Size {
		return false, nil
	}
	for _, m := range [...]*moved{a, b} {
		if err := r.hash(m); err != nil || m.sum == "" {
			return false, err
		}
	}
	return a.sum == b.sum, nil
}

// hash computes the hash of a file, if it is within the limits and can be read.
func (r *renamer) hash(m *moved) error {
	if m.sum != "" || m.Size > r.hashed {
		return nil
	}
	r.hashed -= m.Size
	f, err := r.s.File(m.Change, m.side)
	if err != nil {
		return skippable(err)
	}
	defer f.Close()
	// Nobody can make two files for which both hashes are equal without knowing the seeds; and a cryptographic hash
	// would slow down every start of the program.
	var h, h2 maphash.Hash
	h.SetSeed(r.seed)
	h2.SetSeed(r.seed2)
	if _, err := io.CopyN(io.MultiWriter(&h, &h2), f, m.Size); err != nil {
		if err == io.EOF {
			return nil // it became shorter
		}
		return err
	}
	m.sum = string(h2.Sum(h.Sum(nil)))
	return nil
}

// equal finds files that were moved without a change.
func (r *renamer) equal() error {
	bySize := map[int64][]*moved{}
	for _, m := range r.gone {
		if m.Mode.IsRegular() && m.Size > 0 {
			bySize[m.Size] = append(bySize[m.Size], m)
		}
	}
	bySum := map[string]*pool{}
	read := map[int64]bool{} // sizes of which all that went are in bySum
	for _, to := range r.come {
		if !to.Mode.IsRegular() || len(bySize[to.Size]) == 0 {
			continue
		}
		if err := r.hash(to); err != nil {
			return err
		}
		if read[to.Size] {
			continue
		}
		read[to.Size] = true
		for _, from := range bySize[to.Size] {
			if err := r.hash(from); err != nil {
				return err
			}
			if from.sum != "" {
				addTo(bySum, from.sum, from)
			}
		}
	}
	for _, to := range r.come {
		if to.sum == "" || !to.Mode.IsRegular() || to.Size == 0 {
			continue
		}
		if list := bySum[to.sum].best(to); len(list) > 0 {
			r.add(list[0], to, 100)
		}
	}
	return nil
}

// alike finds texts that were moved and changed. Files that kept their name come first, because not all can be
// compared.
func (r *renamer) alike() error {
	type pair struct {
		from, to *moved
		percent  int
	}
	text := func(m *moved) bool { return m.Mode.IsRegular() && m.Size > 0 && m.Size <= maxText }
	byName := map[string]sizes{}
	var gone sizes
	for i, m := range r.gone {
		if text(m) {
			gone = append(gone, sized{m, i})
			byName[path.Base(m.Path)] = append(byName[path.Base(m.Path)], sized{m, i})
		}
	}
	gone.sort()
	for _, list := range byName {
		list.sort()
	}
	var pairs []pair
	left := maxCompared
	for _, sameName := range [...]bool{true, false} {
		for _, to := range r.come {
			if !text(to) || left == 0 {
				continue
			}
			list := gone
			if sameName {
				list = byName[path.Base(to.Path)]
			}
			for _, from := range list.like(to) {
				if left == 0 {
					break
				}
				if !sameName && path.Base(from.Path) == path.Base(to.Path) {
					continue
				}
				left--
				for _, m := range [...]*moved{from.moved, to} {
					if err := r.read(m); err != nil {
						return err
					}
				}
				if r.lines -= min(len(from.lines), len(to.lines)); r.lines < 0 {
					left = 0
					break
				}
				if p := alikeness(from.moved, to); p >= minAlike {
					pairs = append(pairs, pair{from.moved, to, p})
				}
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return b.percent - a.percent })
	for _, p := range pairs {
		if !p.from.used && !p.to.used {
			r.add(p.from, p.to, p.percent)
		}
	}
	return nil
}

// A sized is an object with its place in path order.
type sized struct {
	*moved
	at int
}

// sizes are objects in the order of their sizes.
type sizes []sized

func (s sizes) sort() {
	slices.SortFunc(s, func(a, b sized) int { return cmp.Or(cmp.Compare(a.Size, b.Size), a.at-b.at) })
}

// like returns those of which so much can be in to, or the other way round, that they are alike, in path order.
func (s sizes) like(to *moved) []sized {
	bySize := func(m sized, size int64) int { return cmp.Compare(m.Size, size) }
	low, _ := slices.BinarySearchFunc(s, (minAlike*to.Size+99)/100, bySize)
	high, _ := slices.BinarySearchFunc(s, 100*to.Size/minAlike+1, bySize)
	list := slices.Clone(s[low:max(low, high)])
	slices.SortFunc(list, func(a, b sized) int { return a.at - b.at })
	return list
}

// read counts the lines of a file, if it is a text within the limits.
func (r *renamer) read(m *moved) error {
	if m.lines != nil || m.Size > r.similar {
		return nil
	}
	r.similar -= m.Size
	m.lines = map[uint64]int{}
	f, err := r.s.File(m.Change, m.side)
	if err != nil {
		return skippable(err)
	}
	defer f.Close()
	in := bufio.NewReader(io.LimitReader(f, maxText))
	if head, _ := in.Peek(8000); bytes.IndexByte(head, 0) >= 0 {
		return nil
	}
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			m.lines[maphash.String(r.seed, strings.TrimRight(line, "\r\n"))] += len(line)
			m.size += len(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// alikeness is how many bytes are in lines that both texts have, in percent of the longer text. Texts that differ never
// have 100.
func alikeness(a, b *moved) int {
	if len(a.lines) > len(b.lines) {
		a, b = b, a
	}
	common := 0
	for line, n := range a.lines {
		common += min(n, b.lines[line])
	}
	longer := max(a.size, b.size)
	if longer == 0 {
		return 0
	}
	return min(common*100/longer, 99)
}
