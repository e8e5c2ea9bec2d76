//go:build linux

package nsrun

import (
	"context"
	"errors"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

// The kinds of failure that Result.Failure returns; use errors.Is.
var (
	ErrNotAvailable = errors.New("there is no sandbox on this machine")       // this machine lacks something that a sandbox needs
	ErrConfig       = errors.New("the configuration or the request is wrong") // nothing was run
	ErrExecution    = errors.New("the command could not be executed")         // or its changes could not be kept, committed or discarded
	ErrTimeout      = errors.New("the command timed out")                     // the command was ended
)

// Failure returns nil if the command ran to its end and nothing failed afterwards, whatever the exit status. Otherwise
// errors.Is reports one of ErrNotAvailable, ErrConfig, ErrExecution and ErrTimeout for the error, and r.Err, if there
// is one. A DeniedError, and the error of a context that ended, have no kind: Failure returns r.Err.
func (r Result) Failure() error {
	switch {
	case r.TimedOut:
		return &failure{ErrTimeout, r.Err}
	case r.Err == nil:
		return nil
	}
	kind := kindOf(r.Err)
	if kind == nil {
		return r.Err
	}
	return &failure{kind, r.Err}
}

type failure struct{ kind, err error }

func (e *failure) Error() string {
	if e.err == nil {
		return e.kind.Error()
	}
	return e.err.Error()
}

func (e *failure) Unwrap() []error {
	if e.err == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.err}
}

// kindOf returns the kind of an error of Run. If the kernel refused a namespace, it tests whether any can be made.
func kindOf(err error) error {
	_, denied := errors.AsType[*DeniedError](err)
	_, config := errors.AsType[*Error](err)
	if denied || errors.Is(err, context.Canceled) || !config && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	if _, missing := errors.AsType[*features.MissingError](err); missing {
		return ErrNotAvailable
	}
	if _, wrong := errors.AsType[*DirError](err); wrong {
		return ErrConfig
	}
	if e, ok := errors.AsType[*nsexec.Error](err); ok {
		if e.Op != nsexec.StepExec && e.Op != nsexec.StepChdir && nativeAvailability(features.Get).Status != Available {
			return ErrNotAvailable
		}
		return ErrExecution
	}
	if _, limit := errors.AsType[*LimitError](err); limit && errors.Is(err, errors.ErrUnsupported) {
		return ErrNotAvailable
	} else if limit || errors.Is(err, ErrProject) || errors.Is(err, overlay.ErrNoSession) {
		return ErrConfig
	}
	_, rule := errors.AsType[*RuleError](err)
	_, mount := errors.AsType[*MountError](err)
	if config || rule || mount {
		return ErrConfig
	}
	return ErrExecution
}

// Check finds out whether commands can run in a sandbox with a session. It tries, once in a process. If no overlay can
// be mounted because the kernel module is missing, the Status is NotInstalled: sandboxes work, with EngineCopy.
func Check() Availability { return availability(features.Get) }

// availability is Check with a given source of features.
func availability(get func(features.Name) features.Feature) Availability {
	for _, name := range [...]features.Name{features.CommonCalls, features.FileCalls} {
		if f := get(name); f.Status == features.No {
			a := availabilityWithout(f, true)
			a.Status = NotSupported // even if a sandbox without a session would be there
			return a
		}
	}
	f, ok := nativeLacks(func(n features.Name) features.Feature {
		if n == features.CgroupNamespaces { // which most commands do without
			return features.Feature{Name: n, Status: features.Yes}
		}
		return get(n)
	})
	a := availabilityWithout(f, ok)
	if a.Status != NotSupported || f.Name == features.Devices || usedUp(f.Err()) { // AutoBackend does not do without namespaces then
		return a
	}
	for _, name := range landlockFeatures {
		if get(name).Status == features.No {
			return a
		}
	}
	a.Status, a.Backend = Available, LandlockBackend
	return a
}

func nativeAvailability(get func(features.Name) features.Feature) Availability {
	return availabilityWithout(nativeLacks(get))
}

// nativeLacks returns the first feature that is missing for NativeBackend, if there is one.
func nativeLacks(get func(features.Name) features.Feature) (missing features.Feature, ok bool) {
	for _, name := range [...]features.Name{
		features.DirectCalls, features.CommonCalls, features.Proc, features.UserNamespaces, features.MountNamespaces,
		features.NetworkNamespaces, features.ProcessNamespaces, features.IPCNamespaces,
		features.CgroupNamespaces, features.SeccompFilters, features.Capset, features.Devices, features.Overlay,
	} {
		if f := get(name); f.Status == features.No {
			return f, true
		}
	}
	return features.Feature{}, false
}

func availabilityWithout(f features.Feature, lacks bool) Availability {
	if !lacks {
		return Availability{Status: Available, Backend: NativeBackend}
	}
	a := Availability{Status: NotSupported, Backend: NativeBackend, Reason: "this machine has no " + string(f.Name), Remedy: f.Remedy}
	if f.Why != "" {
		a.Reason += ": " + f.Why
	}
	if !f.Required {
		a.Status = NotInstalled
	}
	return a
}
