//go:build linux

package features

import (
	"errors"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/reexec"
)

// Probe tries every feature, even if it was tried before. It takes some milliseconds.
func Probe() []Feature {
	list := make([]Feature, len(table))
	for i := range table {
		outcomes[i].Store(nil)
	}
	for i := range table {
		confirm(i)
		list[i] = get(i)
	}
	return list
}

// Get tries a feature. Yes and No are cached for the life of this process; after Unknown it tries again.
func Get(n Name) Feature {
	if i := find(n); i >= 0 {
		return get(i)
	}
	return Feature{Name: n}
}

// Has reports whether a feature is there. False: it is missing, or could not be tested.
func Has(n Name) bool {
	i := find(n)
	return i >= 0 && try(i).status == Yes
}

// Confirm is like Has, but tries more thoroughly, if there is a way. It does not try a missing feature again.
func Confirm(n Name) bool {
	i := find(n)
	return i >= 0 && confirm(i).status == Yes
}

func confirm(i int) *outcome {
	o := try(i)
	if o.status != Yes || table[i].thorough == nil || table[i].on != "" && try(find(table[i].on)).status != Yes {
		return o
	}
	if err := table[i].thorough(); statusOf(err) == No {
		o = &outcome{status: No, err: err}
		outcomes[i].Store(o)
	}
	return o
}

// Without makes a feature missing for the life of this process, because err says that it is of no use here.
func Without(n Name, err error) {
	if i := find(n); i >= 0 {
		outcomes[i].Store(&outcome{status: No, err: err})
	}
}

// Describe returns the table's entry for a feature without trying it: the Status is Unknown.
func Describe(n Name) Feature {
	if i := find(n); i >= 0 {
		return table[i].Feature
	}
	return Feature{Name: n}
}

// Lacks returns a *MissingError for a feature that was found missing by something other than a probe, which gave err.
func Lacks(n Name, err error) error {
	f := Describe(n)
	f.Status = No
	f.blame(err)
	return f.Err()
}

func find(n Name) int {
	for i := range table {
		if table[i].Name == n {
			return i
		}
	}
	return -1
}

// outcome is the outcome of a probe.
type outcome struct {
	status Status
	err    error
}

// outcomes caches Yes and No, by the index in the table.
var outcomes [len(table)]atomic.Pointer[outcome]

// try returns the outcome for the feature with an index.
func try(i int) *outcome {
	if o := outcomes[i].Load(); o != nil {
		return o
	}
	o := &outcome{}
	switch e := &table[i]; {
	case e.on != "" && try(find(e.on)).status != Yes:
		o.err = errors.New("not tested: it needs " + string(e.on))
	default:
		if o.err = endedAt(e.calls); o.err == nil {
			o.err = e.try()
		}
		o.status = statusOf(o.err)
	}
	if o.status != Unknown {
		outcomes[i].Store(o)
	}
	return o
}

func get(i int) Feature {
	f, o := table[i].Feature, try(i)
	f.Status = o.status
	if o.err != nil {
		f.blame(o.err)
	}
	switch {
	case o.status == Yes:
		f.Remedy = ""
	case o.status == No && refusal(o.err) && Filtered() && nspawned("/") && nspawnRemedy(&table[i]) != "":
		f.Remedy = nspawnRemedy(&table[i])
	case errors.Is(o.err, reexec.ErrFiltered):
		f.Remedy = filterRemedy(o.err)
	case o.status == No && table[i].remedy != nil:
		f.Remedy = table[i].remedy(o.err)
	case o.status == No && f.Remedy == "" && f.Needs == callAllowed:
		f.Remedy = refusedRemedy(o.err)
	}
	return f
}

func (f *Feature) blame(err error) { f.Why, f.cause = err.Error(), err }

// statusOf returns the Status that the error of a probe means. It is No only for errors by which the kernel says that
// it does not know the feature, was built or configured without it, or does not let this process use it. Others, such
// as a lack of memory or of descriptors, mean that the probe failed.
func statusOf(err error) Status {
	if err == nil {
		return Yes
	}
	_, absent := errors.AsType[absentError](err)
	if _, ok := errors.AsType[sentenceError](err); ok || absent || errors.Is(err, reexec.ErrFiltered) {
		return No
	}
	e, ok := errors.AsType[unix.Errno](err)
	if !ok {
		return Unknown
	}
	switch e {
	case unix.ENOSYS, unix.EPERM, unix.EACCES, unix.EINVAL, unix.ENODEV, unix.EOPNOTSUPP, unix.ENOPROTOOPT,
		unix.ENOSPC, unix.EUSERS: // the limit of namespaces
		return No
	}
	return Unknown
}

// absentError says in words what is missing.
type absentError string

func (e absentError) Error() string { return string(e) }
