package bwrap

import (
	"reflect"
	"strings"
	"testing"
)

// check parses the same words twice and says what must hold of every result.
func check(t *testing.T, words []string, contents string, extensions bool) *Config {
	parse := func() (*Config, error) {
		return Parse(words, Env{
			UID: 1000, GID: 1000, Extensions: extensions,
			ReadFD: func(int) ([]byte, error) { return []byte(contents), nil },
		})
	}
	c, err := parse()
	again, errAgain := parse()
	if !reflect.DeepEqual(c, again) || errText(err) != errText(errAgain) {
		t.Fatalf("%q: two results:\n%+v %v\n%+v %v", words, c, err, again, errAgain)
	}
	if c == nil {
		t.Fatalf("%q: no Config", words)
	}
	if (err == nil) != (len(c.Command) > 0) {
		t.Fatalf("%q: error %v and command %q", words, err, c.Command)
	}
	if err != nil {
		switch err.(type) {
		case Stop, *Error:
		default:
			t.Fatalf("%q: an error of type %T", words, err)
		}
	}
	if !extensions {
		same, errSame := Parse(words, Env{
			UID: 1000, GID: 1000, Extensions: true,
			ReadFD: func(int) ([]byte, error) { return []byte(contents), nil },
		})
		// The identity is the one thing that extensions read differently.
		if err == nil && !c.UID.Set && !c.GID.Set && (errSame != nil || !reflect.DeepEqual(c, same)) {
			t.Fatalf("%q means something else with extensions: %v", words, errSame)
		}
	}
	for i := range c.Ops {
		op := &c.Ops[i]
		if op.Kind == OpNone || op.Perms > 0o7777 || op.Size > maxTmpfs || op.FD < -1 {
			t.Fatalf("%q: step %+v", words, op)
		}
		switch op.Kind {
		case OpOverlay, OpTmpOverlay:
			if len(op.Layers) < 1 {
				t.Fatalf("%q: %+v has no layers", words, op)
			}
		case OpROOverlay:
			if len(op.Layers) < 2 {
				t.Fatalf("%q: %+v has too few layers", words, op)
			}
		case OpBindFD, OpROBindFD, OpFile, OpBindData, OpROBindData:
			if op.FD < 0 {
				t.Fatalf("%q: %+v has no descriptor", words, op)
			}
		}
	}
	if c.Environment([]string{"A=1"}) == nil {
		t.Fatalf("%q: no environment", words)
	}
	return c
}

func FuzzParse(f *testing.F) {
	for _, tc := range parseCases {
		if len(tc.args) < 1000 {
			f.Add(strings.Join(tc.words(), "\n"), strings.Join(tc.contents(), "\x00"), tc.env != nil)
		}
	}
	f.Fuzz(func(t *testing.T, args, contents string, extensions bool) {
		check(t, strings.Split(args, "\n"), contents, extensions)
	})
}

func FuzzArgsFile(f *testing.F) {
	for _, tc := range parseCases {
		if len(tc.args) < 1000 {
			f.Add(strings.Join(tc.words(), "\x00"))
			f.Add(strings.Join(tc.contents(), "\x00"))
		}
	}
	f.Fuzz(func(t *testing.T, contents string) {
		c := check(t, []string{"--args", "0", "true"}, contents, true)
		if c.Command != nil && (len(c.Command) != 1 || c.Command[0] != "true") {
			t.Fatalf("%q: the command became %q", contents, c.Command)
		}
		words, ok := splitWords(contents, len(contents)+1)
		if !ok {
			t.Fatalf("%q: too many words", contents)
		}
		if back := strings.Join(words, "\x00"); back != contents && back+"\x00" != contents {
			t.Fatalf("%q: split into %q", contents, words)
		}
		// A file means what its words mean in its place.
		direct, err := Parse(append(words, "--", "true"), Env{
			UID: 1000, GID: 1000, Extensions: true,
			ReadFD: func(int) ([]byte, error) { return []byte(contents), nil },
		})
		if c.Command != nil && err == nil && len(direct.Command) == 1 && direct.Command[0] == "true" && !reflect.DeepEqual(c, direct) {
			t.Fatalf("%q: as a file\n%+v\nas words\n%+v", contents, c, direct)
		}
	})
}
