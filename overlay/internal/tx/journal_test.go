//go:build linux

package tx

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/overlay/internal/tree"
)

func moment(ns int64) Moment { return Moment(unix.NsecToTimespec(ns)) }

func TestDecodeJournal(t *testing.T) {
	good := Journal{
		Version: journalVersion,
		Nodes: []Node{
			{Kind: "added", Path: "a", New: Ident{Ino: 1, Mode: 0o40755}},
			{Kind: "added", Path: "a/b\xff", New: Ident{Ino: 2, Mode: 0o100644, Size: 3, Mtime: moment(-4)}},
			{Kind: "deleted", Root: 1, Path: "c", Old: Ident{Ino: 3, Mode: 0o100600}},
			{Kind: "modified", Path: ".", Old: Ident{Ino: 4, Mode: 0o40755}},
		},
		Moves: []Move{{First: 0, End: 2}, {First: 2, End: 3, Stage: 1}},
		Attrs: []Regard{{Node: 3, After: Access{Mode: 0o700, Xattrs: map[string][]byte{"user.x": {0, 255}}}}},
		Times: []Retime{{Path: ".", Ino: 4, Before: Moment{Sec: 10_413_792_000}, After: moment(2), Clean: true}},
	}
	data, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeJournal(data, 2)
	if err != nil || !reflect.DeepEqual(*got, good) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, tt := range []struct{ name, old, new string }{
		{"another version", `"version":1`, `"version":3`},
		{"a path out of the root", `"p":"c"`, `"p":"../c"`},
		{"an absolute path", `"p":"c"`, `"p":"/c"`},
		{"a kind of change that is none", `"k":"added"`, `"k":"odd"`},
		{"a root that is none", `"r":1`, `"r":2`},
		{"a node that is none", `"f":2`, `"f":4`},
		{"a move of the root", `"f":2,"e":3`, `"f":3,"e":4`},
		{"attributes of none", `[{"n":3`, `[{"n":-1`},
		{"a time of another place", `"times":[{"p":"."`, `"times":[{"p":".."`},
		{"something behind it", `"version":1`, `"version":1}{"version":1`},
		{"what is taken, by a version that cannot", `"f":0,"e":2`, `"f":0,"e":2,"t":true`},
		{"cut short", `}]}`, ``},
	} {
		bad := strings.Replace(string(data), tt.old, tt.new, 1)
		if bad == string(data) {
			t.Fatalf("%s: nothing was replaced", tt.name)
		}
		if _, err := DecodeJournal([]byte(bad), 2); err == nil {
			t.Errorf("%s: taken: %s", tt.name, bad)
		}
	}
}

func TestDecodeStages(t *testing.T) {
	const good = `{"version":1,"stages":[{"root":0,"dir":"d/e","name":".nsrun-abc","before":5}]}`
	list, err := decodeStages([]byte(good), 1)
	if err != nil || len(list) != 1 || list[0] != (Stage{Root: 0, Dir: "d/e", Name: ".nsrun-abc", Before: moment(5)}) {
		t.Errorf("%v, %v", list, err)
	}
	// A stage is removed with all that is in it: no other name is taken.
	for _, bad := range [][2]string{
		{".nsrun-abc", "src"}, {".nsrun-abc", ".nsrun-a/../../x"}, {"d/e", ".."}, {`"root":0`, `"root":1`}, {`"version":1`, `"version":9`},
	} {
		if list, err := decodeStages([]byte(strings.Replace(good, bad[0], bad[1], 1)), 1); err == nil {
			t.Errorf("%q: %v", bad[1], list)
		}
	}
}

// What was decoded can be used without looking again: indexes and paths are good.
func FuzzDecodeJournal(f *testing.F) {
	f.Add([]byte(`{"version":1,"nodes":[{"k":"added","p":"a","n":{"i":1,"m":16877}},{"k":"deleted","r":1,"p":"b","o":{"i":2}}],"moves":[{"f":0,"e":1},{"f":1,"e":2,"s":1}],"times":[{"p":".","i":3,"b":1,"a":2}]}`))
	f.Add([]byte(`{"version":1,"nodes":[{"k":"modified","p":".","o":{"i":1}}],"attrs":[{"n":0,"b":{"m":1,"u":0,"g":0},"a":{"m":2,"u":0,"g":0,"x":{"user.a":"AA=="}}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := DecodeJournal(data, 2)
		if err != nil {
			return
		}
		for _, m := range j.Moves {
			n := j.Nodes[m.First]
			_ = j.Nodes[m.First:m.End]
			if dir, name := tree.SplitPath(string(n.Path)); name == "" || name == "." || name == ".." || strings.Contains(name, "/") || dir == "" {
				t.Errorf("a move of %q", n.Path)
			}
		}
		for _, a := range j.Attrs {
			_ = j.Nodes[a.Node]
		}
		again, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		k, err := DecodeJournal(again, 2)
		if err != nil {
			t.Fatal(err)
		}
		// Compared as text: an empty list is as good as none.
		if third, err := json.Marshal(k); err != nil || string(third) != string(again) {
			t.Errorf("%s became %s, %v", again, third, err)
		}
	})
}

func FuzzDecodeStages(f *testing.F) {
	f.Add([]byte(`{"version":1,"stages":[{"root":0,"dir":"d/e","name":".nsrun-abc","before":5}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := decodeStages(data, 1)
		if err != nil {
			return
		}
		for _, st := range list {
			if st.Root != 0 || !strings.HasPrefix(st.Name, StageMark) || strings.Contains(st.Name, "/") {
				t.Errorf("%+v", st)
			}
		}
	})
}

// TestMoment: journals that were written before have numbers. Those do not hold all times that file systems have.
func TestMoment(t *testing.T) {
	for _, tt := range []struct {
		is   Moment
		want string
	}{
		{Moment{}, "0"},
		{Moment{Sec: 1, Nsec: 2}, "1000000002"},
		{Moment{Sec: -1, Nsec: 999_999_999}, "-1"},
		{Moment{Sec: 9_223_372_035}, "9223372035000000000"},
		{Moment{Sec: 9_223_372_036, Nsec: 999_999_999}, "[9223372036,999999999]"},
		{Moment{Sec: -9_223_372_036}, "[-9223372036,0]"},
		{Moment{Sec: 15_032_385_535, Nsec: 7}, "[15032385535,7]"},
	} {
		data, err := json.Marshal(tt.is)
		if err != nil || string(data) != tt.want {
			t.Errorf("%+v is %s, %v, want %s", tt.is, data, err, tt.want)
		}
		var back Moment
		if err := json.Unmarshal([]byte(tt.want), &back); err != nil || back != tt.is {
			t.Errorf("%s is %+v, %v, want %+v", tt.want, back, err, tt.is)
		}
	}
	for _, bad := range []string{`"1"`, "[1", `{"Sec":1}`, "1.5", "9223372036854775808"} {
		if err := json.Unmarshal([]byte(bad), new(Moment)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
