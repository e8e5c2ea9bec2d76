//go:build linux

package nsrun_test

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/fanotify"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/netpolicy"
	"github.com/nsrun/nsrun/netpolicy/cgroup"
	"github.com/nsrun/nsrun/overlay"
	"github.com/nsrun/nsrun/project"
)

// all are n values of an enumeration, from zero.
func all[T ~uint8 | ~int](n int) (list []any) {
	for i := range n {
		list = append(list, T(i))
	}
	return list
}

// TestJSONEnumerations: whatever value a type has, it has a text and can be part of JSON; what has a name gets that
// back, and so does the zero value.
func TestJSONEnumerations(t *testing.T) {
	for _, list := range [][]any{
		all[overlay.Engine](256), all[overlay.Kind](256), all[overlay.State](256), all[overlay.Aspect](256), all[overlay.Preference](256),
		all[fanotify.Engine](10), all[fanotify.Op](10), all[features.Status](10),
		all[project.Kind](256), all[project.Decision](10), all[netpolicy.Proto](256), all[cgroup.Hook](10),
		all[mounts.Kind](256), all[nsrun.Mode](10), all[nsrun.Enforcer](10), all[nsrun.After](10),
	} {
		for i, v := range list {
			name := fmt.Sprintf("%T(%d)", v, i)
			if s, ok := v.(fmt.Stringer); ok && s.String() == "" && i > 0 {
				t.Errorf("%s has no text", name)
			}
			data, err := json.Marshal(v)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			m, marshals := v.(encoding.TextMarshaler)
			got := reflect.New(reflect.TypeOf(v))
			err = json.Unmarshal(data, got.Interface())
			known := !marshals || i == 0 || i == 1
			if zero, _ := json.Marshal(list[0]); i > 0 && string(data) == string(zero) {
				continue // an unknown value is written like the zero value
			}
			if err == nil && !reflect.DeepEqual(got.Elem().Interface(), v) || err != nil && known {
				t.Errorf("%s becomes %s, and that %v (%v)", name, data, got.Elem(), err)
			}
			if marshals {
				if text, err := m.MarshalText(); err != nil || i > 0 && len(text) == 0 {
					t.Errorf("%s: %q, %v", name, text, err)
				}
			}
		}
	}
}

// TestJSONPlain: what is plain data can be written as JSON, whatever is missing in it.
func TestJSONPlain(t *testing.T) {
	for _, v := range []any{
		nsrun.Config{}, nsrun.Request{}, nsrun.Folder{}, nsrun.Rule{}, nsrun.Network{}, nsrun.Output{}, nsrun.Backup{}, nsrun.Question{},
		nsrun.Config{Project: "/p", Engine: overlay.EngineCopy, Shared: []nsrun.Folder{{Path: "/q"}}}, nsrun.Request{Command: "true"},
		overlay.Info{}, overlay.Change{}, overlay.Conflict{}, overlay.Cleaned{}, overlay.Options{}, overlay.Recovered{}, overlay.UndoOptions{}.Force,
		project.Change{}, project.Execution{}, fanotify.Event{}, netpolicy.Decision{}, netpolicy.Rule{}, features.Feature{},
		mounts.Mount{}, mounts.Plan{{}}, nsrun.BaseMounts(),
	} {
		if _, err := json.Marshal(v); err != nil {
			t.Errorf("%T: %v", v, err)
		}
	}
}

// TestJSONResult: a Result of any kind can be written as JSON, and tells its error and its signal in words.
func TestJSONResult(t *testing.T) {
	for _, c := range []struct {
		name string
		res  nsrun.Result
		want []string
	}{
		{"zero", nsrun.Result{}, []string{`"Engine":""`, `"State":"kept"`}},
		{"an error", nsrun.Result{Err: fmt.Errorf("open: %w", errors.ErrUnsupported)}, []string{`"Err":"open: unsupported operation"`}},
		{"an error that cannot be written", nsrun.Result{Err: strange{}}, []string{`"Err":"strange"`}},
		{"a signal", nsrun.Result{Signal: syscall.SIGKILL, ExitCode: 137}, []string{`"Signal":"SIGKILL"`, `"ExitCode":137`}},
		{"a signal without a name", nsrun.Result{Signal: syscall.Signal(40)}, []string{`"Signal":"signal 40"`}},
		{"an overlay", nsrun.Result{Engine: overlay.EngineOverlay, State: overlay.Committed, Changes: []overlay.Change{{Kind: overlay.Added, Path: "a\xff"}}},
			[]string{`"Engine":"overlay"`, `"State":"committed"`, `"Kind":"added"`}},
		{"values that there are not", nsrun.Result{Engine: 99, State: 99, Changes: []overlay.Change{{}, {Kind: 99}}}, []string{`"Engine":"engine(99)"`, `"Kind":""`}},
	} {
		data, err := json.Marshal(c.res)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for _, want := range c.want {
			if !strings.Contains(string(data), want) {
				t.Errorf("%s: %s is not in %s", c.name, want, data)
			}
		}
		if c.res.Engine == 99 {
			continue
		}
		var read nsrun.Result
		if err := json.Unmarshal(data, &read); err != nil {
			t.Errorf("%s cannot be read: %v", c.name, err)
		}
		if again, err := json.Marshal(read); err != nil || string(again) != strings.ReplaceAll(string(data), `\ufffd`, "\ufffd") || read.Signal != c.res.Signal || (read.Err == nil) != (c.res.Err == nil) {
			t.Errorf("%s becomes %s (%v)", data, again, err)
		}
	}
	read := nsrun.Result{Signal: syscall.SIGKILL, Err: errors.ErrUnsupported, Denied: true}
	if err := json.Unmarshal([]byte(`{"ExitCode": 1}`), &read); err != nil || read.Signal != nil || read.Err != nil || !read.Denied || read.ExitCode != 1 {
		t.Errorf("%v, %+v", err, read)
	}
	// The result of a command without an overlay.
	r := nsrun.NewRunner(nsrun.Config{NoPlayground: true})
	defer r.Close()
	res, err := r.Run(t.Context(), nsrun.Request{Command: "echo out; exit 3"})
	if err != nil {
		t.Fatal(err)
	}
	if data, err := json.Marshal(res); err != nil || !strings.Contains(string(data), `"ExitCode":3`) {
		t.Errorf("%s, %v", data, err)
	}
	// One that timed out says the same after it was written and read.
	if res, err = r.Run(t.Context(), nsrun.Request{Command: "sleep 1000", Timeout: 50 * time.Millisecond}); !res.TimedOut {
		t.Fatal(res, err)
	}
	data, err := json.Marshal(res)
	if err == nil {
		err = json.Unmarshal(data, &read)
	}
	if want := "Timed out after 50ms"; err != nil || !strings.Contains(read.String(), want) || read.String() != res.String() {
		t.Errorf("%q becomes %q (%v)", res, read, err)
	}
}

// TestJSONReasons: the errors in plain data are written as texts, and read again as errors; those that have names are
// known by them.
func TestJSONReasons(t *testing.T) {
	for _, why := range []error{nil, overlay.ErrOverlap, overlay.ErrNoBase, overlay.ErrNotText, strange{}} {
		conflict := overlay.Conflict{Path: "a", Kind: overlay.Modified, Session: overlay.Version{Exists: true, Size: 1}, Unmerged: why}
		omitted := project.Omitted{Path: "/a", What: "backup", Why: why}
		conflicts, omits := []overlay.Conflict{{Root: "/old"}}, []project.Omitted{{What: "old"}}
		for _, c := range []struct{ from, to any }{{[]overlay.Conflict{conflict}, &conflicts}, {[]project.Omitted{omitted}, &omits}} {
			data, err := json.Marshal(c.from)
			if err == nil {
				err = json.Unmarshal(data, c.to)
			}
			if err != nil || (why != nil) != strings.Contains(string(data), fmt.Sprintf("%q", fmt.Sprint(why))) {
				t.Errorf("%v: %s, %v", why, data, err)
			}
		}
		got, also := conflicts[0].Unmerged, omits[0].Why
		if named := why != nil && why != (strange{}); named && got != why || fmt.Sprint(got) != fmt.Sprint(why) || fmt.Sprint(also) != fmt.Sprint(why) {
			t.Errorf("%v becomes %v and %v", why, got, also)
		}
		conflict.Unmerged, conflicts[0].Unmerged, conflicts[0].Root = nil, nil, ""
		if omitted.Why, omits[0].Why = nil, nil; conflicts[0] != conflict || omits[0] != omitted {
			t.Errorf("%+v, %+v", conflicts[0], omits[0])
		}
	}
}

// strange is an error that encoding/json cannot write.
type strange struct{ C chan int }

func (strange) Error() string { return "strange" }
