//go:build linux

package overlay

import (
	"golang.org/x/sys/unix"
)

// A mergedTree shows several layers as one, the topmost first, as overlayfs does: the
// project under what other sessions made of it.
type mergedTree struct{ layers []tree }

func (t *mergedTree) close() {
	for _, l := range t.layers {
		l.close()
	}
}

func (t *mergedTree) top() (dir, error) {
	d := &mergedDir{}
	for _, l := range t.layers {
		top, err := l.top()
		if err != nil {
			d.close()
			return nil, err
		}
		d.layers = append(d.layers, top)
		if opaque, err := top.opaque(); err != nil || opaque {
			if err != nil {
				d.close()
				return nil, err
			}
			break
		}
	}
	return d, nil
}

func (t *mergedTree) at(path string) (dir, error) {
	d, err := t.top()
	if err != nil {
		return nil, err
	}
	return descend(d, path)
}

// A mergedDir is what is at one path in the layers that show there.
type mergedDir struct{ layers []dir }

func (d *mergedDir) close() {
	for _, l := range d.layers {
		l.close()
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

func (d *mergedDir) stat() (stat, error) { return d.layers[0].stat() }

func (d *mergedDir) names() ([]string, error) {
	if len(d.layers) == 1 {
		return d.layers[0].names()
	}
	seen := map[string]bool{}
	var list []string
	for _, l := range d.layers {
		names, err := l.names()
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if seen[name] {
				continue
			}
			seen[name] = true
			st, ok, err := l.lstat(name)
			if err != nil {
				return nil, err
			}
			if ok && !st.isWhiteout() {
				list = append(list, name)
			}
		}
	}
	return list, nil
}

// find returns the number of the layer whose object shows at name: -1 for none.
func (d *mergedDir) find(name string) (int, stat, error) {
	for i, l := range d.layers {
		st, ok, err := l.lstat(name)
		if err != nil {
			return 0, stat{}, err
		}
		if ok && st.isWhiteout() {
			break
		}
		if ok {
			return i, st, nil
		}
	}
	return -1, stat{}, nil
}

func (d *mergedDir) lstat(name string) (stat, bool, error) {
	i, st, err := d.find(name)
	return st, i >= 0, err
}

// layer returns the layer that has the object want at name.
func (d *mergedDir) layer(name string, want stat) (dir, error) {
	i, st, err := d.find(name)
	if err != nil || i < 0 || st.ino != want.ino || st.dev != want.dev {
		return nil, orMoved(err)
	}
	return d.layers[i], nil
}

func (d *mergedDir) dir(name string, want stat) (dir, error) {
	first, st, err := d.find(name)
	if err != nil || first < 0 || st.ino != want.ino || st.dev != want.dev || !st.isDir() {
		return nil, orMoved(err)
	}
	sub := &mergedDir{}
	for i, l := range d.layers[first:] {
		if i > 0 {
			var ok bool
			if st, ok, err = l.lstat(name); err == nil && !ok {
				continue
			}
			if err == nil && !st.isDir() {
				break // it, or a whiteout, hides what is below
			}
		}
		var s dir
		if err == nil {
			s, err = l.dir(name, st)
		}
		opaque := false
		if err == nil {
			sub.layers = append(sub.layers, s)
			opaque, err = s.opaque()
		}
		if err != nil {
			sub.close()
			return nil, err
		}
		if opaque {
			break
		}
	}
	return sub, nil
}

func (d *mergedDir) file(name string, want stat) (*file, error) {
	l, err := d.layer(name, want)
	if err != nil {
		return nil, err
	}
	return l.file(name, want)
}

func (d *mergedDir) link(name string, want stat) (string, error) {
	l, err := d.layer(name, want)
	if err != nil {
		return "", err
	}
	return l.link(name, want)
}

func (d *mergedDir) traits(name string, want stat) (traits, error) {
	l, err := d.layer(name, want)
	if err != nil {
		return traits{}, err
	}
	t, err := l.traits(name, want)
	t.origin = false
	return t, err
}

func (d *mergedDir) xattrs() (xattrs, error) { return d.layers[0].xattrs() }
func (d *mergedDir) opaque() (bool, error)   { return false, nil }
func (d *mergedDir) origin() (bool, error)   { return false, nil }

// descend goes from d, which it closes, to the directory at a relative path.
func descend(d dir, path string) (dir, error) {
	for rest := path; rest != "" && rest != "."; {
		name := rest
		rest = ""
		for i := range len(name) {
			if name[i] == '/' {
				name, rest = name[:i], name[i+1:]
				break
			}
		}
		st, ok, err := d.lstat(name)
		if err == nil && (!ok || st.isWhiteout()) {
			err = unix.ENOENT
		}
		if err == nil && !st.isDir() {
			err = unix.ENOTDIR
		}
		var sub dir
		if err == nil {
			sub, err = d.dir(name, st)
		}
		d.close()
		if err != nil {
			return nil, err
		}
		d = sub
	}
	return d, nil
}
