//go:build linux

package nsrun_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(insideEnv); name != "" {
		os.Exit(insides[name](os.Args[1:]))
	}
	testenv.OwnState()
	testenv.AllNeedNamespaces()
	testenv.Main(m, nsexec.Shutdown)
}

// place is a directory with a project p and a home directory, which is what HOME says.
func place(t testing.TB, project ...string) string {
	t.Helper()
	dir := testenv.Dir(t)
	testenv.Tree(t, dir, "p/", "home/", "state/")
	testenv.Tree(t, filepath.Join(dir, "p"), project...)
	for name, value := range map[string]string{
		"HOME": "home", "XDG_STATE_HOME": "state", "XDG_DATA_HOME": "", "XDG_CACHE_HOME": "", "XDG_CONFIG_HOME": "",
	} {
		if value != "" {
			value = filepath.Join(dir, value)
		}
		if b, ok := t.(*testing.T); ok {
			b.Setenv(name, value)
		} else if err := os.Setenv(name, value); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// runner returns a Runner that is closed when the test ends.
func runner(t testing.TB, c nsrun.Config) *nsrun.Runner {
	t.Helper()
	r := nsrun.NewRunner(c)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// output runs a command, which must succeed, and returns what a model reads.
func output(t testing.TB, r *nsrun.Runner, q nsrun.Request) string {
	t.Helper()
	res, err := r.Run(t.Context(), q)
	if err != nil {
		t.Errorf("%s%q: %v", q.Command, q.Args, err)
	}
	return res.String()
}

// sh is output for a shell command and nothing else.
func sh(t testing.TB, r *nsrun.Runner, command string) string {
	t.Helper()
	return output(t, r, nsrun.Request{Command: command})
}

// content is what a file holds, "-" if there is none.
func content(name ...string) string {
	b, err := os.ReadFile(filepath.Join(name...))
	if err != nil {
		return "-"
	}
	return string(b)
}
