//go:build linux

package mcpargs

import (
	"errors"
	"flag"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/config"
)

func TestParse(t *testing.T) {
	for line, want := range map[string]Options{
		"":                                    {AskTimeout: defaultAsk},
		"--project a --project b":             {AskTimeout: defaultAsk, Projects: []string{"a", "b"}},
		"--keep":                              {AskTimeout: defaultAsk, After: Keep},
		"--keep --commit":                     {AskTimeout: defaultAsk},
		"--discard --timeout 10s":             {AskTimeout: defaultAsk, After: Discard, Timeout: 10 * time.Second},
		"--rw x --block y --ro z":             {AskTimeout: defaultAsk, Paths: []config.Rule{{Kind: "rw", Pattern: "x"}, {Kind: "block", Pattern: "y"}, {Kind: "ro", Pattern: "z"}}},
		"--env A=1 --env B":                   {AskTimeout: defaultAsk, Env: []string{"A=1", "B"}},
		"--max-output 2K --ask-timeout 1s":    {AskTimeout: time.Second, MaxOutput: 2048},
		"--text-only --max-output 1073741824": {AskTimeout: defaultAsk, TextOnly: true, MaxOutput: 1 << 30},
	} {
		got, err := Parse(strings.Fields(line))
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%q: %+v, %v, want %+v", line, got, err, want)
		}
	}
	for _, line := range []string{
		"x", "--project", "--project=", "--rw=", "--env=", "--timeout -1s", "--timeout x", "--ask-timeout 0", "--ask-timeout -1s",
		"--max-output 0", "--max-output -1", "--max-output 2G", "--max-output 1e3", "--max-output K", "--max-output 99999999999999999999", "--bogus",
	} {
		if got, err := Parse(strings.Fields(line)); err == nil || errors.Is(err, flag.ErrHelp) {
			t.Errorf("%q: %+v, %v", line, got, err)
		}
	}
	if _, err := Parse([]string{"-h"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}

func FuzzSize(f *testing.F) {
	for _, s := range []string{"1", "64K", "1m", "1G", "", "K", "-1", "18446744073709551616"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := Size(s); err == nil && (n < 1 || n > maxSize) {
			t.Errorf("%q is %d", s, n)
		}
	})
}

func TestDecodeInput(t *testing.T) {
	for raw, want := range map[string]Input{
		`{"command":"a","working_dir":"b","network":true}`:  {"a", "b", true},
		`{"command":"a","working_dir":null,"network":null}`: {Command: "a"},
		`{}`: {}, `null`: {}, ``: {},
		`{"command":"a","command":"b"}`: {Command: "b"},
	} {
		if got, err := DecodeInput([]byte(raw)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
	for _, raw := range []string{
		`[]`, `1`, `{`, `{"Command":"a"}`, `{"command":1}`, `{"command":["a"]}`, `{"network":"true"}`, `{"network":1}`, `{"command":"\u0000"}`,
		`{"working_dir":"a\u0000"}`, `{"x":null}`, `{"command":"` + strings.Repeat("x", MaxArg+1) + `"}`,
	} {
		if got, err := DecodeInput([]byte(raw)); err == nil || got != (Input{}) {
			t.Errorf("%.50s: %+v, %v", raw, got, err)
		}
	}
}

func FuzzDecodeInput(f *testing.F) {
	for _, s := range []string{
		`{"command":"echo","working_dir":"playground","network":true}`, `{}`, `null`, `[]`, `{"command":null}`, `{"command":"\u0000"}`, `{"x":{}}`, ``, `{"command":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		in, err := DecodeInput(raw)
		if err != nil && in != (Input{}) {
			t.Errorf("%q: %+v with %v", raw, in, err)
		}
		if strings.ContainsRune(in.Command+in.WorkingDir, 0) || len(in.Command) > MaxArg {
			t.Errorf("%q: %+v", raw, in)
		}
	})
}
