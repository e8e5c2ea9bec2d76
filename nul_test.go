//go:build linux

package nsrun_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// texts calls f with each string in a struct, and with its name. Each slice gets one element first.
func texts(v reflect.Value, name string, f func(name string, text reflect.Value)) {
	switch v.Kind() {
	case reflect.String:
		f(name, v)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 || v.Type().Elem().Kind() == reflect.Interface {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		texts(v.Index(0), name+"[0]", f)
		v.SetZero()
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				texts(v.Field(i), strings.TrimPrefix(name+"."+field.Name, "."), f)
			}
		}
	}
}

// TestZeroBytes: a zero byte in any text of a Config, a Request or a Cmd is an error that names the field, and nothing
// runs.
func TestZeroBytes(t *testing.T) {
	testenv.Leaks(t, nsexec.Shutdown)
	dir := place(t)
	tried := 0
	check := func(name string, c nsrun.Config, q nsrun.Request) {
		tried++
		res, err := runner(t, c).Run(t.Context(), q)
		if err == nil || res.Started || !errors.Is(res.Failure(), nsrun.ErrConfig) ||
			!strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "zero byte") {
			t.Errorf("%s: started %t, %v", name, res.Started, err)
		}
	}
	var c nsrun.Config
	texts(reflect.ValueOf(&c).Elem(), "", func(name string, text reflect.Value) {
		text.SetString("a\x00b")
		check(name, c, nsrun.Request{Args: []string{"true"}})
		text.SetString("")
	})
	var q nsrun.Request
	texts(reflect.ValueOf(&q).Elem(), "", func(name string, text reflect.Value) {
		text.SetString("a\x00b")
		q := q
		if len(q.Args) == 0 && q.Command == "" {
			q.Args = []string{"true"}
		}
		check(name, nsrun.Config{Project: dir + "/p"}, q)
		text.SetString("")
	})
	if tried < 20 {
		t.Errorf("only %d fields were tried", tried)
	}
	for name, change := range map[string]func(*nsexec.Cmd){
		"Path": func(c *nsexec.Cmd) { c.Path = "/bin/\x00true" }, "Dir": func(c *nsexec.Cmd) { c.Dir = "/\x00tmp" },
		"Hostname": func(c *nsexec.Cmd) { c.Hostname = "a\x00b" }, "Args": func(c *nsexec.Cmd) { c.Args = []string{"true", "a\x00b"} },
	} {
		c := nsexec.Command("/bin/true")
		change(c)
		if err := c.Run(); err == nil || !strings.Contains(err.Error(), name+" contains a zero byte") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
