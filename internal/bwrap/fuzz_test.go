//go:build linux

package bwrap

import (
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// The words of a command line cannot hold NUL, and everything else can.
const sep = "\x00"

// files are the contents of descriptors 3, 4 and so on, each of which can be read
// once.
type files []string

func (f files) readFD() func(int) ([]byte, error) {
	done := make([]bool, len(f))
	return func(fd int) ([]byte, error) {
		if fd < 3 || fd-3 >= len(f) || done[fd-3] {
			return nil, syscall.EBADF
		}
		done[fd-3] = true
		return []byte(f[fd-3]), nil
	}
}

func (f files) parse(words []string, extensions bool) (*Config, error) {
	return Parse(words, Env{UID: 1000, GID: 1000, Extensions: extensions, ReadFD: f.readFD()})
}

// check parses the same words twice and says what must hold of every result.
func check(t *testing.T, words []string, f files, extensions bool) (*Config, error) {
	t.Helper()
	given := slices.Clone(words)
	c, err := f.parse(words, extensions)
	if !slices.Equal(words, given) {
		t.Fatalf("%q became %q", given, words)
	}
	again, errAgain := f.parse(words, extensions)
	if !reflect.DeepEqual(c, again) || errText(err) != errText(errAgain) {
		t.Fatalf("%q: two results:\n%+v %v\n%+v %v", words, c, err, again, errAgain)
	}
	if c == nil {
		t.Fatalf("%q: no Config", words)
	}
	if err != nil {
		switch err.(type) {
		case Stop, *Error:
		default:
			t.Fatalf("%q: an error of type %T", words, err)
		}
		if len(c.Command) > 0 {
			t.Fatalf("%q: the error %v and the command %q", words, err, c.Command)
		}
	} else {
		checkCommand(t, c, words, f, extensions)
	}
	if !extensions {
		same, errSame := f.parse(words, true)
		// The identity is the one thing that extensions read differently.
		if err == nil && !c.UID.Set && !c.GID.Set && (errSame != nil || !reflect.DeepEqual(c, same)) {
			t.Fatalf("%q means something else with extensions: %v", words, errSame)
		}
	}
	checkSteps(t, c, words)
	if c.Environment([]string{"A=1"}) == nil {
		t.Fatalf("%q: no environment", words)
	}
	return c, err
}

// checkCommand: the command is the end of the words, and said to be the command it
// is the same.
func checkCommand(t *testing.T, c *Config, words []string, f files, extensions bool) {
	t.Helper()
	at := len(words) - len(c.Command)
	if at < 0 || len(c.Command) == 0 || !slices.Equal(words[at:], c.Command) {
		t.Fatalf("%q: the command %q is not the end of it", words, c.Command)
	}
	if len(words)+countByte(strings.Join(f, sep), 0)+len(f)+2 >= maxWords {
		return
	}
	// What follows the command is the command's.
	more, err := f.parse(append(slices.Clone(words), "--bogus", "--"), extensions)
	if err != nil || len(more.Command) != len(c.Command)+2 {
		t.Fatalf("%q and more: %+v %v", words, more, err)
	}
	if at > 0 && words[at-1] == "--" {
		return
	}
	marked, err := f.parse(slices.Insert(slices.Clone(words), at, "--"), extensions)
	if err != nil || !reflect.DeepEqual(c, marked) {
		t.Fatalf("%q: with -- before the command\n%+v %v\nwithout\n%+v", words, marked, err, c)
	}
}

func checkSteps(t *testing.T, c *Config, words []string) {
	t.Helper()
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
			if len(op.Layers) < 2 && (len(op.Layers) < 1 || op.Hide == nil) {
				t.Fatalf("%q: %+v has too few layers", words, op)
			}
		case OpBindFD, OpROBindFD, OpFile, OpBindData, OpROBindData:
			if op.FD < 0 {
				t.Fatalf("%q: %+v has no descriptor", words, op)
			}
		}
	}
}

// fileErrors are what only a file can be refused for: the same words in its place
// are fine.
var fileErrors = []string{
	"--args not supported in arguments file", msgLayers, msgWords, "takes a", "takes one", "takes two", "takes three",
	"--perms must be followed by", "--size must be followed by",
}

// inline replaces each --args by the words of its file, as far as they are options. All that it knows of an option is
// how many words it takes. ok is false if the words are refused anyway.
func inline(words []string, f files, extensions bool) (out []string, ok bool) {
	read := f.readFD()
	var expand func(words []string, inFile bool) bool
	expand = func(words []string, inFile bool) bool {
		for i := 0; i < len(words); {
			word := words[i]
			if word == "--" || word == "" || word[0] != '-' {
				if !inFile {
					out = append(out, words[i:]...)
				}
				return true
			}
			o := lookup(word, extensions)
			if o == nil {
				return false
			}
			end := i + 1 + o.NArgs()
			if end > len(words) {
				return false
			}
			var content []byte
			if o.Name == "--args" || o.Name == "--add-seccomp-fd" {
				fd, err := new(parser).parseFD(words[i+1])
				if err == nil {
					content, err = read(fd)
				}
				if err != nil {
					return false
				}
			}
			if o.Name != "--args" {
				out = append(out, words[i:end]...)
			} else if inFile || !expand(strings.Split(strings.TrimSuffix(string(content), sep), sep), true) {
				return false
			}
			i = end
		}
		return true
	}
	return out, expand(words, false)
}

// checkFiles: files mean what their words mean in the place of --args.
func checkFiles(t *testing.T, words []string, f files, c *Config, err error, extensions bool) {
	t.Helper()
	spliced, ok := inline(words, f, extensions)
	if err == nil && !ok {
		t.Fatalf("%q, files %q: is accepted", words, f)
	}
	if !ok {
		return
	}
	direct, errDirect := f.parse(spliced, extensions)
	switch {
	case err == nil && errDirect == nil && reflect.DeepEqual(c, direct):
	case err != nil && errText(err) == errText(errDirect):
	case err != nil && slices.ContainsFunc(fileErrors, func(s string) bool { return strings.Contains(err.Error(), s) }):
	default:
		t.Fatalf("%q, files %q\n%+v %v\nas words %q\n%+v %v", words, f, c, err, spliced, direct, errDirect)
	}
}

func FuzzParse(f *testing.F) {
	for _, tc := range parseCases {
		if len(tc.args) < 1000 {
			first := ""
			if c := tc.contents(); len(c) > 0 {
				first = c[0]
			}
			f.Add(strings.Join(tc.words(), sep), first, tc.env != nil)
		}
	}
	f.Fuzz(func(t *testing.T, args, contents string, extensions bool) {
		words, f := strings.Split(args, sep), files{contents}
		c, err := check(t, words, f, extensions)
		checkFiles(t, words, f, c, err, extensions)
	})
}

func FuzzArgsFile(f *testing.F) {
	for i, tc := range parseCases {
		if len(tc.args) >= 1000 {
			continue
		}
		words, second := strings.Join(tc.words(), sep), ""
		if c := tc.contents(); len(c) > 0 {
			second = c[0]
		}
		switch i % 3 {
		case 0:
			f.Add("", words, second, "true")
		case 1:
			f.Add("--unshare-all", second, words, "true")
		case 2:
			f.Add(words, second, "--bind\x00/\x00/\x00", "--chdir\x00/\x00true")
		}
	}
	f.Add("--overlay-src\x00a", "--overlay-src\x00b", "--ro-overlay\x00/c", "--tmp-overlay\x00/d\x00true")
	f.Add("--perms\x00700", "--dir\x00/a", "--perms\x00755\x00--size\x005", "--tmpfs\x00/b\x00true")
	f.Add("--bind\x00a", "b", "--", "true")
	f.Fuzz(func(t *testing.T, before, first, second, behind string) {
		var words []string
		if before != "" {
			words = strings.Split(before, sep)
		}
		words = append(words, "--args", "3", "--args", "4")
		words = append(words, strings.Split(behind, sep)...)
		f := files{first, second}
		c, err := check(t, words, f, true)
		checkFiles(t, words, f, c, err, true)
		for _, content := range f {
			split, ok := splitWords(content, len(content)+1)
			if !ok {
				t.Fatalf("%q: too many words", content)
			}
			if back := strings.Join(split, sep); back != content && back+sep != content {
				t.Fatalf("%q: split into %q", content, split)
			}
		}
	})
}

// FuzzParseIn: without allocating, and what is accepted means the same as for Parse.
func FuzzParseIn(f *testing.F) {
	for _, line := range []string{
		"--bind / / true", "--unshare-all --share-net --perms 0700 --size 5 --tmpfs /x --setenv A b --clearenv true",
		"--chdir / --argv0 x --hostname y --unshare-uts --uid 1 --symlink a /b -- true -x", "--bind / /", "--args 3 true",
	} {
		f.Add([]byte(strings.ReplaceAll(line, " ", "\x00")), true)
		f.Add([]byte(strings.ReplaceAll(line, " ", "\x00")), false)
	}
	room := new(Room)
	f.Fuzz(func(t *testing.T, line []byte, root bool) {
		words := strings.Split(string(line), "\x00")
		env := &Env{UID: 1000, GID: 1000, Extensions: true, UserNamespaces: func() bool { return true }}
		if root {
			env.UID, env.Caps = 0, 1<<41-1
		}
		var got *Config
		var ok bool
		if n := testing.AllocsPerRun(3, func() {
			*room = Room{}
			got, ok = ParseIn(room, words, env)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
		if !ok {
			return
		}
		want, err := Parse(words, *env)
		if err != nil {
			t.Fatalf("Parse says %v", err)
		}
		c := *got
		if len(c.Ops) == 0 {
			c.Ops = nil
		}
		if len(c.Environ) == 0 {
			c.Environ = nil
		}
		if !reflect.DeepEqual(&c, want) {
			t.Errorf("%+v, Parse reads %+v", &c, want)
		}
	})
}
