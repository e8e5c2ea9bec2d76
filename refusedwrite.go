//go:build linux

package nsrun

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/attempts"
	"github.com/nsrun/nsrun/internal/escape"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/sys"
)

// mountRule is the word for what cannot be replaced because something is mounted there.
const mountRule = "mount"

// refusedWrite is a write that fails although nothing is read-only. Either the host has the directory, but the sandbox
// lacks it, or has something else in place of one above it; or a rule names the path, which is therefore a mount that
// cannot be replaced or removed. If ofName is true, the name itself is written to, otherwise what it leads to.
func refusedWrite(box *plan.Sandbox, name string, err error, ofName bool) (r Refusal, ok bool) {
	real, on := host.Look(name)
	p := box.Why(real, on)
	r = Refusal{Kind: RefusedWrite, Op: string(RefusedWrite), Target: real, Rule: causes[p.Cause].word, Why: refusalText(&p), Count: 1}
	at := real
	if ofName || !on.Exists {
		at = filepath.Dir(real)
	}
	switch {
	case errors.Is(err, unix.EBUSY) && p.At == real:
		r.Rule, r.Why = mountRule, escape.Quote(real)+" is a mount of its own, and can be neither replaced nor removed"
	case errors.Is(err, unix.ENOENT) && p.At != real && p.At != at && (p.Cause == plan.PrivateCause || p.Cause == plan.StrictCause) && (on.Exists || !ofName):
	case errors.Is(err, unix.ENOENT) && p.At != real && p.Cause == plan.SecretCause && p.Absent:
	default:
		return r, false
	}
	_, there := host.Look(at)
	if !there.Exists || there.NoWrite {
		return r, false
	}
	if with, ok := box.Opening(at); ok {
		r.allowWith(with)
	}
	return r, true
}

// refusedAcross is a rename or link from one directory to another that are one mount on the host, and two in the
// sandbox.
func refusedAcross(box *plan.Sandbox, a attempts.Attempt) (r Refusal, ok bool) {
	from, mayRemove := onHost(a.From)
	to, mayMake := onHost(a.Path)
	if from != to || !mayMake || a.Name && !mayRemove {
		return r, false
	}
	r = Refusal{Kind: RefusedWrite, Op: string(RefusedWrite), Target: a.Path, Rule: mountRule, Count: 1,
		Why: "nothing can be renamed or linked from " + escape.Quote(a.From) + " to it, because they are different mounts"}
	with, ok := box.Across(a.From, a.Path)
	if r.allowWith(with); !ok {
		r.Why += ", and no flag makes them one: copy instead"
	}
	return r, true
}

// onHost is the number of the host's mount that a directory is in, and whether this user may write to it. If the host
// lacks the directory, it is about the nearest of its parents.
func onHost(dir string) (mount uint64, writable bool) {
	var st unix.Statx_t
	_, on := host.Look(dir)
	_ = sys.Statx(unix.AT_FDCWD, on.Nearest, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &st)
	return st.Mnt_id, on.Root || !on.NoWrite
}

func (r *Refusal) allowWith(with plan.Flag) {
	if with.Name != "" && with.Path == "" {
		r.Flag = with.Name
	} else if with.Name != "" {
		r.flag, r.value = with.Name, with.Path
		r.Flag = with.Name + " " + escape.Command([]string{with.Path})
	}
}
