//go:build linux

package nsrun

import (
	"cmp"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/overlay"
)

// What cannot have been meant is refused, and nothing is made for it.
func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, want string
		config     Config
		request    Request
	}{
		{"after", "configure: unknown After", Config{After: Hold + 1}, Request{}},
		{"preset", "configure: unknown preset", Config{Preset: 255}, Request{}},
		{"time limit of all", "configure: the time limit is negative", Config{Timeout: -1}, Request{}},
		{"recorder", "configure: a Registry without a project.Registry", Config{Recorder: Registry{}}, Request{}},
		{"permissions", "configure: a Registry without a project.Registry", Config{Permissions: Registry{}}, Request{}},
		{"pointer", "configure: a Registry without a project.Registry", Config{Recorder: &Registry{}}, Request{}},
		{"nil pointer", "configure: a Registry without a project.Registry", Config{Recorder: (*Registry)(nil)}, Request{}},
		{"nil pointer for permissions", "configure: a Registry without a project.Registry", Config{Permissions: (*Registry)(nil)}, Request{}},
		{"embedded", "configure: a Registry without a project.Registry", Config{Recorder: struct{ Registry }{}}, Request{}},
		{"embedded nil pointer", "configure: a Registry without a project.Registry", Config{Recorder: struct{ *Registry }{}}, Request{}},
		{"engine", "configure: unknown Engine", Config{Engine: overlay.EngineCopy + 1}, Request{}},
		{"state directory", "use as state directory state: path is not absolute", Config{StateDir: "state"}, Request{}},
		{"home size", "configure: the size of the home layer is negative", Config{Home: HomeLayer, HomeSize: -1}, Request{}},
		{"playground", "use as playground dir: path is not absolute", Config{Playground: "dir"}, Request{}},
		{"nameless", "configure: the environment has a variable without a name", Config{Env: []string{"A=b", "=c"}}, Request{}},
		{"empty variable", "configure: the environment has a variable without a name", Config{Env: []string{""}}, Request{}},
		{"time limit", "run: the time limit is negative", Config{}, Request{Timeout: -time.Second}},
		{"zero byte", "run: Command contains a zero byte", Config{}, Request{Command: "a\x00b"}},
	} {
		c.config.Project, c.config.StateDir = dir, cmp.Or(c.config.StateDir, dir+"/missing")
		if c.request.Command == "" {
			c.request.Command = "true"
		}
		r := NewRunner(c.config)
		res, err := r.Run(t.Context(), c.request)
		if _, ok := errors.AsType[*Error](err); !ok || err.Error() != c.want || res.Started || !strings.HasPrefix(res.String(), "ERROR: ") {
			t.Errorf("%s: %v, %q", c.name, err, res)
		}
		if err := r.Close(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := os.Lstat(c.config.StateDir); err == nil {
			t.Errorf("%s: the state directory was made", c.name)
		}
	}
}

// TestUnknownValues: a value of a Config that has no meaning is an error, and not another value.
func TestUnknownValues(t *testing.T) {
	dir, n := t.TempDir(), 0
	for i := range reflect.TypeFor[Config]().NumField() {
		c := Config{Project: dir, StateDir: dir + "/missing"}
		field := reflect.TypeFor[Config]().Field(i)
		switch v := reflect.ValueOf(&c).Elem().Field(i); {
		case v.Kind() == reflect.Uint8:
			v.SetUint(200)
		case v.Kind() == reflect.Int64:
			v.SetInt(-1)
		default:
			continue
		}
		n++
		r := NewRunner(c)
		res, err := r.Run(t.Context(), Request{Command: "true"})
		if !errors.Is(res.Failure(), ErrConfig) || res.Started {
			t.Errorf("%s: %v, %q", field.Name, err, res)
		}
		if err := r.Close(); err != nil {
			t.Errorf("%s: %v", field.Name, err)
		}
	}
	if n < 12 {
		t.Errorf("only %d fields", n)
	}
}

// TestZeroRunner: the zero Runner is that of the zero Config; after Close all that needs an open one says so.
func TestZeroRunner(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	var unused, used Runner
	if err := errors.Join(unused.Commit(t.Context(), overlay.CommitOptions{}), unused.Discard(t.Context()), unused.Close()); err != nil {
		t.Error(err)
	}
	if res, err := used.Run(t.Context(), Request{Command: "echo x"}); err != nil || res.String() != "x\n" {
		t.Errorf("%q, %v", res, err)
	}
	if err := used.Close(); err != nil {
		t.Error(err)
	}
	kept := NewRunner(Config{Project: t.TempDir(), StateDir: t.TempDir()})
	if _, err := kept.Run(t.Context(), Request{Command: "echo >file"}); err != nil {
		t.Fatal(err)
	}
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Runner{&unused, &used, kept} {
		_, run := r.Run(t.Context(), Request{Command: "true"})
		for _, err := range []error{run, r.Commit(t.Context(), overlay.CommitOptions{}), r.Discard(t.Context())} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%v, want %v", err, ErrClosed)
			}
		}
	}
}

// TestConfigCopied: a Config can be changed while Runners that were made of it are in use.
func TestConfigCopied(t *testing.T) {
	var c Config
	values := []reflect.Value{reflect.ValueOf(&c).Elem(), reflect.ValueOf(&c.Net).Elem(), reflect.ValueOf(&c.Limits).Elem()}
	n := 0
	for _, v := range values {
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.Slice {
				f.Set(reflect.MakeSlice(f.Type(), 1, 8))
				n++
			}
		}
	}
	if n < 11 {
		t.Errorf("only %d slices", n)
	}
	got := NewRunner(c).config
	copies := []reflect.Value{reflect.ValueOf(got), reflect.ValueOf(got.Net), reflect.ValueOf(got.Limits)}
	for i, v := range values {
		for j := range v.NumField() {
			if f, g := v.Field(j), copies[i].Field(j); f.Kind() == reflect.Slice && f.Pointer() == g.Pointer() {
				t.Errorf("%s.%s is shared", v.Type(), v.Type().Field(j).Name)
			}
		}
	}
}
