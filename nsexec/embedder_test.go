//go:build linux

package nsexec_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
)

// Programs that embed the package in ways in which executing them once more would not do.

// useText is a function of such a program: it starts sandboxes and says what they say.
const useText = `
func use() string {
	defer nsexec.Shutdown()
	text := ""
	for range 2 {
		c := nsexec.Command("sh", "-c", "echo fine $PPID")
		c.Mounts = mounts.Plan{mounts.ROBind("/", "/"), mounts.Dev("/dev"), mounts.Proc("/proc")}
		out, err := c.CombinedOutput()
		if err != nil {
			return err.Error()
		}
		text += string(out)
	}
	return text
}
`

const useImports = `
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
`

// firstText is a package that is initialised before those of this module, in a program
// that needs a variable of its environment.
const firstText = `package first

import (
	"os"
	"time"
)

var _ = time.Now

func init() {
	if os.Getenv("EMBEDDER_KEY") == "" {
		%
	}
}
`

// buildEmbedder builds a module of these files against this one, and returns its directory.
func buildEmbedder(t *testing.T, files map[string]string, builds ...[]string) string {
	t.Helper()
	testenv.NeedCheckout(t)
	if _, err := exec.LookPath("go"); err != nil {
		testenv.Skip(t, "go", err.Error())
	}
	checkout, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile("../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	dir := testenv.Dir(t)
	text := strings.Replace(string(mod), "module github.com/nsrun/nsrun", "module example.org/embedder", 1) +
		"\nrequire github.com/nsrun/nsrun v0.0.0\n\nreplace github.com/nsrun/nsrun => " + checkout + "\n"
	write(t, 0o644, text, dir, "go.mod")
	write(t, 0o644, string(sum), dir, "go.sum")
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, 0o644, text, dir, name)
	}
	for _, args := range builds {
		c := exec.Command("go", append([]string{"build"}, args...)...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off", "GOTOOLCHAIN=local")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go build %q: %v\n%s", args, err, out)
		}
	}
	return dir
}

// runEmbedder runs such a program, also without privileges.
func runEmbedder(t *testing.T, dir string, args ...string) {
	t.Helper()
	for _, nobody := range []bool{false, testenv.Root()} {
		c := exec.Command(args[0], args[1:]...)
		c.Dir = dir
		c.Env = append(os.Environ(), "EMBEDDER_KEY=1")
		if nobody {
			c.SysProcAttr = asNobody()
		}
		var out strings.Builder
		c.Stdout, c.Stderr = &out, &out
		c.WaitDelay = testenv.Patience
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		hung := time.AfterFunc(testenv.Patience, func() { _ = c.Process.Kill() })
		err := c.Wait()
		if !hung.Stop() {
			t.Errorf("%q hangs", args)
		}
		if got := strings.TrimSpace(out.String()); err != nil || got != "fine 1\nfine 1" {
			t.Errorf("%q, nobody %v: %v, %s", args, nobody, err, got)
		}
	}
}

// TestEmbedderInit: a package that is initialised first panics, or blocks for ever, where a
// variable of the environment is missing.
func TestEmbedderInit(t *testing.T) {
	leaks(t)
	for _, what := range []string{`panic("no key")`, `for { time.Sleep(time.Hour) }`} {
		dir := buildEmbedder(t, map[string]string{
			"main.go":        "package main\n\nimport (\n\t\"fmt\"\n\t_ \"example.org/embedder/first\"" + useImports + ")\n\nfunc main() { fmt.Print(use()) }\n" + useText,
			"first/first.go": strings.Replace(firstText, "%", what, 1),
		}, []string{"-o", "program", "."})
		runEmbedder(t, dir, "./program")
	}
}

// needC skips where there is no C compiler.
func needC(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		testenv.Skip(t, "gcc", err.Error())
	}
	t.Setenv("CGO_ENABLED", "1")
}

// constructor is C code that runs before main, in whatever loads it.
const constructor = `
/*
#include <stdlib.h>
__attribute__((constructor)) static void check(void) { if (!getenv("EMBEDDER_KEY")) abort(); }
*/
import "C"
`

// TestEmbedderLibrary: a C library with a constructor, loaded by Python.
func TestEmbedderLibrary(t *testing.T) {
	leaks(t)
	needC(t)
	const python = "/usr/bin/python3" // that one is for everybody
	if !exists(python) {
		testenv.Skip(t, "python3", "there is no "+python)
	}
	dir := buildEmbedder(t, map[string]string{
		"main.go": "package main\n" + constructor + "\nimport (" + useImports + ")\n\n//export Use\nfunc Use() *C.char { return C.CString(use()) }\n\nfunc main() {}\n" + useText,
	}, []string{"-buildmode=c-shared", "-o", "library.so", "."})
	runEmbedder(t, dir, python, "-c", "import ctypes; f = ctypes.CDLL('./library.so').Use; f.restype = ctypes.c_char_p; print(f().decode(), end='')")
}

// TestEmbedderPlugin: what starts sandboxes is a plugin, and its host knows nothing of it.
func TestEmbedderPlugin(t *testing.T) {
	leaks(t)
	needC(t)
	dir := buildEmbedder(t, map[string]string{
		"plugin/main.go": "package main\n" + constructor + "\nimport (" + useImports + ")\n\nfunc Use() string { return use() }\n\nfunc main() {}\n" + useText,
		"main.go": `package main

import (
	"fmt"
	"plugin"
)

func main() {
	p, err := plugin.Open("./plugin.so")
	if err != nil {
		panic(err)
	}
	f, err := p.Lookup("Use")
	if err != nil {
		panic(err)
	}
	fmt.Print(f.(func() string)())
}
`,
	}, []string{"-buildmode=plugin", "-o", "plugin.so", "./plugin"}, []string{"-o", "host", "."})
	runEmbedder(t, dir, "./host")
}
