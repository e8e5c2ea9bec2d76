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
