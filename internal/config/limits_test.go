package config

import (
	"reflect"
	"testing"

	"github.com/nsrun/nsrun/internal/limits"
)

// What files say of limits is what a command gets; swap means nothing without memory, but as a flag.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		text  string
		flags limits.Limits
		want  limits.Limits
	}{
		{"memory = '512M'\nswap = 'max'\npids = 7\ncpus = 0.5\nnofile = 9\nfsize = 4096\noutput = '1K'\nnice = 19\nidle_io = true", limits.Limits{},
			limits.Limits{Memory: 512 << 20, Swap: -1, PIDs: 7, CPUs: 0.5, OpenFiles: 9, FileSize: 4096, Output: 1024, Nice: 19, IdleIO: true}},
		{"swap = '1G'", limits.Limits{}, limits.Limits{}},
		{"swap = '1G'", limits.Limits{Memory: 1 << 30}, limits.Limits{Memory: 1 << 30, Swap: 1 << 30}},
		{"pids = 1", limits.Limits{Swap: 5}, limits.Limits{PIDs: 1, Swap: 5}},
		{"memory = '1G'\nswap = 'max'", limits.Limits{Swap: 5, Nice: 3}, limits.Limits{Memory: 1 << 30, Swap: 5, Nice: 3}},
	} {
		l, errs := Decode("f", User, []byte("[limits]\n"+c.text), &Facts{})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		flags := Flags()
		flags.Limits(c.flags, func(string) bool { return false })
		p, err := Merge([]*Layer{l}, flags, &Facts{})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Limits(); got != c.want {
			t.Errorf("%q and %+v: %+v, want %+v", c.text, c.flags, got, c.want)
		}
	}
}

// Every limit that there is has a key, and is one that files and flags set.
func TestAllLimits(t *testing.T) {
	n := 0
	for i, k := range Keys {
		var l limits.Limits
		to := field(&l, i)
		if to == nil {
			if k.parse == nil && (k.Kind == Size || k.Kind == Count || k.Kind == Number) {
				t.Errorf("%s is no limit", k.Name)
			}
			continue
		}
		n++
		if err := setLimit(to, map[Kind]string{Size: "1G", Count: "7", Number: "1.5", Bool: "true"}[k.Kind]); err != nil || l == (limits.Limits{}) {
			t.Errorf("%s sets nothing: %v", k.Name, err)
		}
	}
	if want := reflect.TypeFor[limits.Limits]().NumField(); n != want {
		t.Errorf("%d limits have keys, and there are %d", n, want)
	}
}
