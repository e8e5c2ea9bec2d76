//go:build linux

package tree

import (
	"golang.org/x/sys/unix"
)

// A Merged shows several layers as one, the topmost first, as overlayfs does: the
// project and the changes of other sessions to it.
type Merged struct{ Layers []Tree }

func (t *Merged) Close() {
	for _, l := range t.Layers {
		l.Close()
	}
}

func (t *Merged) Top() (Dir, error) {
	d := &mergedDir{}
	for _, l := range t.Layers {
		top, err := l.Top()
		if err != nil {
			d.Close()
			return nil, err
		}
		d.layers = append(d.layers, top)
		if opaque, err := top.opaque(); err != nil || opaque {
			if err != nil {
				d.Close()
				return nil, err
			}
			break
		}
	}
	return d, nil
}

func (t *Merged) At(path string) (Dir, error) {
	d, err := t.Top()
	if err != nil {
		return nil, err
	}
	return descend(d, path)
}

// A mergedDir has the directories at one path in all layers that are visible there.
type mergedDir struct{ layers []Dir }

func (d *mergedDir) Close() {
	for _, l := range d.layers {
		l.Close()
	}
}

func (d *mergedDir) park() {
	for _, l := range d.layers {
		l.park()
	}
}

func (d *mergedDir) wake() error {
	for _, l := range d.layers {
		if err := l.wake(); err != nil {
			return err
		}
	}
	return nil
}

func (d *mergedDir) Stat() (Stat, error) { return d.layers[0].Stat() }

func (d *mergedDir) Names() ([]string, error) {
	if len(d.layers) == 1 {
		return d.layers[0].Names()
	}
	seen := map[string]bool{}
	var list []string
	for _, l := range d.layers {
		names, err := l.Names()
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if seen[name] {
				continue
			}
			seen[name] = true
			st, ok, err := l.Lstat(name)
			if err != nil {
				return nil, err
			}
			if ok && !st.IsWhiteout() {
				list = append(list, name)
			}
		}
	}
	return list, nil
}

// find returns the number of the layer whose object is visible at name. -1: none.
func (d *mergedDir) find(name string) (int, Stat, error) {
	for i, l := range d.layers {
		st, ok, err := l.Lstat(name)
		if err != nil {
			return 0, Stat{}, err
		}
		if ok && st.IsWhiteout() {
			break
		}
		if ok {
			return i, st, nil
		}
	}
	return -1, Stat{}, nil
}

func (d *mergedDir) Lstat(name string) (Stat, bool, error) {
	i, st, err := d.find(name)
	return st, i >= 0, err
}

// layer returns the layer that has the object want at name.
func (d *mergedDir) layer(name string, want Stat) (Dir, error) {
	i, st, err := d.find(name)
	if err != nil || i < 0 || st.Ino != want.Ino || st.Dev != want.Dev {
		return nil, OrMoved(err)
	}
	return d.layers[i], nil
}

func (d *mergedDir) Dir(name string, want Stat) (Dir, error) {
	first, st, err := d.find(name)
	if err != nil || first < 0 || st.Ino != want.Ino || st.Dev != want.Dev || !st.IsDir() {
		return nil, OrMoved(err)
	}
	sub := &mergedDir{}
	for i, l := range d.layers[first:] {
		if i > 0 {
			var ok bool
			if st, ok, err = l.Lstat(name); err == nil && !ok {
				continue
			}
			if err == nil && !st.IsDir() {
				break // it hides the layers below, and so does a whiteout
			}
		}
		var s Dir
		if err == nil {
			s, err = l.Dir(name, st)
		}
		opaque := false
		if err == nil {
			sub.layers = append(sub.layers, s)
			opaque, err = s.opaque()
		}
		if err != nil {
			sub.Close()
			return nil, err
		}
		if opaque {
			break
		}
	}
	return sub, nil
}

func (d *mergedDir) File(name string, want Stat) (*File, error) {
	l, err := d.layer(name, want)
	if err != nil {
		return nil, err
	}
	return l.File(name, want)
}

func (d *mergedDir) Link(name string, want Stat) (string, error) {
	l, err := d.layer(name, want)
	if err != nil {
		return "", err
	}
	return l.Link(name, want)
}

func (d *mergedDir) Traits(name string, want Stat) (Traits, error) {
	l, err := d.layer(name, want)
	if err != nil {
		return Traits{}, err
	}
	t, err := l.Traits(name, want)
	t.Origin = false
	return t, err
}

func (d *mergedDir) Xattrs() (Xattrs, error) { return d.layers[0].Xattrs() }
func (d *mergedDir) opaque() (bool, error)   { return false, nil }
func (d *mergedDir) Origin() (bool, error)   { return false, nil }

// descend goes from d, which it closes, to the directory at a relative path.
func descend(d Dir, path string) (Dir, error) {
	for rest := path; rest != "" && rest != "."; {
		name := rest
		rest = ""
		for i := range len(name) {
			if name[i] == '/' {
				name, rest = name[:i], name[i+1:]
				break
			}
		}
		st, ok, err := d.Lstat(name)
		if err == nil && (!ok || st.IsWhiteout()) {
			err = unix.ENOENT
		}
		if err == nil && !st.IsDir() {
			err = unix.ENOTDIR
		}
		var sub Dir
		if err == nil {
			sub, err = d.Dir(name, st)
		}
		d.Close()
		if err != nil {
			return nil, err
		}
		d = sub
	}
	return d, nil
}
