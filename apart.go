//go:build linux

package nsrun

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/mounts"
)

var (
	errNotApart    = errors.New("changes to it cannot be kept apart")
	errMountsBelow = errors.New("changes to it cannot be kept apart: other file systems are mounted in it")
)

// keepApart makes a command write to a layer, or to a copy, wherever it would write in place. Its changes are gone with
// the session.
func (x *Execution) keepApart(f *plan.Facts, box *plan.Sandbox) error {
	for i := range box.Mounts {
		m := &box.Mounts[i]
		switch box.Layers[i] {
		case plan.InPlaceLayer, plan.BuildLayer, plan.PlaygroundLayer, plan.RuleLayer, plan.PathLayer:
		default:
			continue
		}
		if m.Kind != mounts.KindBind || m.ReadOnly {
			continue
		}
		apart, err := x.apart(m, f.Table, i)
		if err != nil {
			return &Error{Op: plan.OpUse, Path: m.Target, Err: err}
		}
		apart.Optional = m.Optional
		*m = apart
	}
	return nil
}

// apart replaces a bind that the command writes to; n is a unique number.
func (x *Execution) apart(m *mounts.Mount, table []mounts.Info, n int) (mounts.Mount, error) {
	fi, err := os.Lstat(m.Source)
	switch {
	case err != nil:
		return *m, err
	case fi.IsDir() && plan.Below(table, m.Source) != "":
		return *m, errMountsBelow
	case fi.IsDir() && x.session == nil:
		return mounts.TmpOverlay(m.Target, m.Source), nil
	case fi.IsDir():
		layer, err := x.session.Scratch(m.Source)
		if err == nil && layer.Kind != mounts.KindOverlay { // the session has a copy, not an overlay
			if !features.Has(features.Overlay) {
				return *m, errNotApart
			}
			layer = mounts.TmpOverlay(m.Target, m.Source)
		}
		layer.Target = m.Target
		return layer, err
	case !fi.Mode().IsRegular() || x.session == nil:
		return *m, errNotApart
	}
	copied := filepath.Join(x.session.Dir(), "apart-"+strconv.Itoa(n))
	return mounts.Bind(copied, m.Target), copyFile(m.Source, copied)
}

// copyFile makes a copy with the same permissions, in a directory that only this process writes to.
func copyFile(from, to string) error {
	in, err := os.OpenFile(from, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	defer in.Close()
	fi, err := in.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = errNotApart
	}
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(fi.Mode().Perm()), out.Close())
}
