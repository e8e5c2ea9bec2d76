//go:build linux

package nsrun_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsexec"
)

// TestSecretsLater: a secret that appears while a command runs stays invisible, and its name is not visible before. The
// controls are another file, which does appear, and a sandbox without the home directory's overlay.
func TestSecretsLater(t *testing.T) {
	testenv.NeedRoot(t) // the home directory must not be in a private place
	need(t, features.Overlay)
	testenv.Leaks(t, nsexec.Shutdown)
	secrets := []string{".netrc", ".aws/credentials", ".ssh/id_ed25519", ".config/gh/hosts.yml", ".config/gcloud/x", ".local/share/keyrings/login", ".docker/config.json",
		".claude/.credentials.json", ".kube/config"}
	for _, made := range []string{"", ".config/", ".config/ .claude/ .local/ .local/share/", "playground/ .config/ .config/other"} {
		dir := place(t)
		const home = "/srv"
		if err := unix.Mount(filepath.Join(dir, "home"), home, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Setenv("HOME", home)
		testenv.Tree(t, home, append(strings.Fields(made), "other/")...)
		r := runner(t, nsrun.Config{Project: filepath.Join(dir, "p"), After: nsrun.Discard, Shared: []nsrun.Folder{{Path: home + "/other", Mode: nsrun.ReadOnly}}})
		// The command says that it is there, and waits for the files.
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ready, said, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		x, err := r.Start(t.Context(), nsrun.Request{Command: "cd; ls -A >&2; echo; read x; ls -A; cat harmless " + strings.Join(secrets, " ") + "; mkdir .config/new .aws; ls -A .config", Stdin: in, Stdout: said})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = ready.Read(make([]byte, 1))
		for _, name := range append([]string{"harmless"}, secrets...) {
			name = filepath.Join(home, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte("content of "+filepath.Base(name)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = out.WriteString("go\n")
		res, err := x.Wait()
		for _, f := range []*os.File{in, out, ready, said} {
			_ = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		got := res.Stdout.String()
		if strings.Count(got, "content of") != 1 || !strings.Contains(got, "content of harmless") {
			t.Errorf("with %q: %s", made, res)
		}
		before := strings.Fields(strings.SplitN(res.Stderr.String(), "cat:", 2)[0])
		for _, name := range before {
			if known := []string{"other", "playground", ".config", ".claude", ".local", ".cache"}; !slices.Contains(known, name) {
				t.Errorf("with %q: the home directory shows %s", made, name)
			}
		}
		spec := nsrun.Spec{Mounts: nsrun.BaseMounts()}
		if b, err := spec.Command("cat", filepath.Join(home, ".netrc")).Output(); err != nil || string(b) != "content of .netrc\n" {
			t.Errorf("the control: %q, %v", b, err)
		}
		if err := unix.Unmount(home, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}
}
