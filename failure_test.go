//go:build linux

package nsrun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/nsexec"
)

// TestCheckAvailability: available where nothing is missing; else what, why, and what to do.
func TestCheckAvailability(t *testing.T) {
	lacks := func(missing features.Name, status features.Status) func(features.Name) features.Feature {
		return func(n features.Name) features.Feature {
			f := features.Describe(n)
			if f.Status = features.Yes; n == missing {
				f.Status, f.Why, f.Remedy = status, "because", "do this"
			}
			return f
		}
	}
	for _, c := range []struct {
		missing features.Name
		status  features.Status
		want    Availability
	}{
		{"", features.Yes, Availability{Status: Available, Backend: NativeBackend}},
		{features.UserNamespaces, features.No, Availability{NotSupported, "this machine has no user namespaces: because", "do this", NativeBackend}},
		{features.UserNamespaces, features.Unknown, Availability{Status: Available, Backend: NativeBackend}},
		{features.SeccompFilters, features.No, Availability{NotSupported, "this machine has no seccomp filters: because", "do this", NativeBackend}},
		{features.Overlay, features.No, Availability{NotInstalled, "this machine has no overlay: because", "do this", NativeBackend}},
		{features.BPF, features.No, Availability{Status: Available, Backend: NativeBackend}},
	} {
		if got := nativeAvailability(lacks(c.missing, c.status)); got != c.want {
			t.Errorf("without %q: %+v", c.missing, got)
		}
	}
	for _, f := range features.Probe() {
		if f.Required && nativeAvailability(lacks(f.Name, features.No)).Status != NotSupported {
			t.Errorf("Check ignores %s, which is required", f.Name)
		}
	}
	for missing, want := range map[features.Name]Availability{
		features.UserNamespaces: {Available, "this machine has no user namespaces: because", "do this", LandlockBackend},
		features.Proc:           {NotSupported, "this machine has no proc: because", "do this", NativeBackend},
		features.Devices:        {NotSupported, "this machine has no devices: because", "do this", NativeBackend},
		features.SeccompFilters: {NotSupported, "this machine has no seccomp filters: because", "do this", NativeBackend},
		features.CommonCalls:    {NotSupported, "this machine has no common calls: because", "do this", NativeBackend},
		features.FileCalls:      {NotSupported, "this machine has no file calls: because", "do this", NativeBackend},
		// Most commands run without it, with namespaces.
		features.CgroupNamespaces: {Status: Available, Backend: NativeBackend},
	} {
		if got := availability(lacks(missing, features.No)); got != want {
			t.Errorf("without %q: %+v", missing, got)
		}
	}
	for s, want := range map[AvailabilityStatus]string{0: "not checked", Available: "available", NotInstalled: "not installed", NotSupported: "not supported", 9: "status?"} {
		if s.String() != want {
			t.Errorf("%d: %s", s, s)
		}
	}
}

// TestErrorKinds: not available, configuration, execution failed and time-out are told apart by errors.Is.
func TestErrorKinds(t *testing.T) {
	missing := features.Feature{Name: features.UserNamespaces, Status: features.No}.Err()
	denied := &DeniedError{}
	kinds := []error{ErrNotAvailable, ErrConfig, ErrExecution, ErrTimeout}
	for i, c := range []struct {
		res  Result
		kind error
	}{
		{Result{}, nil}, {Result{ExitCode: 1, Started: true}, nil}, {Result{Err: denied}, nil}, {Result{Err: context.Canceled}, nil},
		{Result{Err: &nsexec.Error{Op: "exec", Err: context.DeadlineExceeded}}, nil}, {Result{Err: context.DeadlineExceeded}, nil},
		{Result{Err: &Error{Op: "use credential for", Err: context.DeadlineExceeded}}, ErrConfig}, // a program took too long
		{Result{Err: missing}, ErrNotAvailable}, {Result{Err: &nsexec.Error{Op: "clone", Err: missing}}, ErrNotAvailable},
		{Result{Err: &Error{Op: "configure", Err: errors.New("x")}}, ErrConfig}, {Result{Err: &RuleError{}}, ErrConfig}, {Result{Err: &MountError{}}, ErrConfig},
		{Result{Err: &DirError{"/x", &nsexec.Error{Op: "chdir", Err: syscall.ENOENT}}}, ErrConfig},
		{Result{Err: &nsexec.Error{Op: "exec", Path: "none", Err: syscall.ENOENT}}, ErrExecution}, {Result{Err: fmt.Errorf("x")}, ErrExecution},
		{Result{Err: &LimitError{Name: "disk", Err: errors.New("x")}}, ErrConfig},
		{Result{Err: &LimitError{Name: "memory", Err: errors.ErrUnsupported}}, ErrNotAvailable},
		{Result{TimedOut: true}, ErrTimeout}, {Result{TimedOut: true, Err: context.DeadlineExceeded}, ErrTimeout},
	} {
		err := c.res.Failure()
		for _, kind := range kinds {
			if errors.Is(err, kind) != (kind == c.kind) {
				t.Errorf("%d: %v is %v", i, err, kind)
			}
		}
		if c.res.Err != nil && !errors.Is(err, c.res.Err) || err != nil && err.Error() == "" {
			t.Errorf("%d: %v is not %v", i, err, c.res.Err)
		}
	}
	// A folder that cannot be a project is one mistake, whichever package finds it.
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		config  Config
		project bool
	}{
		{Config{Project: "relative"}, true}, {Config{Project: file}, true}, {Config{Project: "/"}, true}, {Config{Project: "/proc"}, true},
		{Config{Project: t.TempDir(), On: "20200101T000000Z-aaaaaaaa"}, false}, {Config{Session: "20200101T000000Z-aaaaaaaa"}, false},
	} {
		c.config.StateDir = t.TempDir()
		r := NewRunner(c.config)
		res, err := r.Run(t.Context(), Request{Command: "true"})
		if !errors.Is(res.Failure(), ErrConfig) || errors.Is(err, ErrProject) != c.project {
			t.Errorf("%+v: %v", c.config, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	// The caller's context has a deadline of its own.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r := NewRunner(Config{})
	res, err := r.Run(ctx, Request{Command: "sleep 1000"})
	if got := res.Failure(); !errors.Is(err, context.DeadlineExceeded) || got != err || res.TimedOut {
		t.Errorf("%v, %v, timed out: %t", got, err, res.TimedOut)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	// As commands give them.
	for q, want := range map[*Request]error{
		{Command: "exit 3"}:                  nil,
		{Args: []string{"/no/such/program"}}: ErrExecution,
		{}:                                   ErrConfig,
		{Command: "true", WorkingDir: "/no/such/dir"}:           ErrConfig,
		{Command: "sleep 1000", Timeout: 50 * time.Millisecond}: ErrTimeout,
	} {
		r := NewRunner(Config{})
		res, _ := r.Run(t.Context(), *q)
		if err := res.Failure(); want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%+v: %v, want %v", q, err, want)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
