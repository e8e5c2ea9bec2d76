package main

import (
	"slices"
	"strings"
	"testing"
)

// events are what a package writes that runs its tests twice.
const events = `{"Action":"output","Package":"p","Output":"=== RUN A\n"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: it says something\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    a_test.go:2: without bpf: operation not permitted: no\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    a_test.go:3: is for ordinary users, and will be run as one\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Output":"once more, as an ordinary user:\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:4: needs root, and was run as root before\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestScript/zsh","Output":"        > [!have:zsh] skip 'install the package zsh: not tested'\n"}
{"Action":"skip","Package":"p","Test":"TestScript/zsh"}
{"Action":"output","Package":"p","Test":"TestD","Output":"    a_test.go:3: without root: needs root\n"}
{"Action":"skip","Package":"p","Test":"TestD"}
{"Action":"output","Package":"p","Test":"TestE","Output":"    a_test.go:3: without long: set NSRUN_LONG, or make test-long\n"}
{"Action":"skip","Package":"p","Test":"TestE"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`

const failing = `{"Action":"build-output","ImportPath":"q","Output":"q.go:1: wrong\n"}
{"Action":"output","Package":"q","Test":"TestX","Output":"=== RUN   TestX\n"}
{"Action":"output","Package":"q","Test":"TestX","Output":"    x_test.go:1: no\n"}
{"Action":"fail","Package":"q","Test":"TestX"}
{"Action":"output","Package":"q","Output":"FAIL\tq\t0.1s\n"}
{"Action":"fail","Package":"q"}
`

func TestSummary(t *testing.T) {
	var s summary
	var out strings.Builder
	if err := s.read(strings.NewReader(events), &out); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "ok  \tp\t0.1s\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want := "1 ran, 4 skipped: 1 without bpf (this machine has none); 1 without zsh (make deps); 1 without long (make test-long); 1 without root (sudo make test)"
	if got := s.line(true); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
	if err := s.read(strings.NewReader(failing), &out); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "ok  \tp\t0.1s\nq.go:1: wrong\n    x_test.go:1: no\nFAIL\tq\t0.1s\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := s.line(false); !strings.HasPrefix(got, "FAILED: 2; 2 ran") || !strings.Contains(got, "zsh (sudo make deps)") {
		t.Error(got)
	}
	var none summary
	if got := none.line(true); got != "0 ran, 0 skipped" {
		t.Error(got)
	}
}

func TestGroups(t *testing.T) {
	got := groups([]string{"-count=1", "./...", "--then", "A=b", "./x", "--then"})
	if len(got) != 2 || !slices.Equal(got[0], []string{"-count=1", "./..."}) || !slices.Equal(got[1], []string{"A=b", "./x"}) {
		t.Errorf("%q", got)
	}
}
