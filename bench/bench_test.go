//go:build linux

package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/nsrun/nsrun"
	"github.com/nsrun/nsrun/features"
	"github.com/nsrun/nsrun/internal/host"
	"github.com/nsrun/nsrun/internal/mountprog"
	"github.com/nsrun/nsrun/internal/plan"
	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/sandbox"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/internal/wall"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsexec"
	"github.com/nsrun/nsrun/overlay"
)

func TestMain(m *testing.M) {
	testenv.AllNeedNamespaces()
	testenv.Main(m, nsexec.Shutdown)
}

// isolated is what `--ro-bind / / --dev /dev --proc /proc` asks for.
func isolated(more ...mounts.Mount) mounts.Plan {
	return append(mounts.Plan{mounts.ROBind("/", "/"), mounts.Dev("/dev"), mounts.Proc("/proc")}, more...)
}

// run is one start and end of `true`.
func run(b *testing.B, plan mounts.Plan, share nsexec.Namespace) {
	b.Helper()
	for b.Loop() {
		c := nsexec.Command("true")
		c.Mounts, c.Share = plan, share
		if err := c.Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkExec is not a sandbox: what the others are over.
func BenchmarkExec(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRunIsolated(b *testing.B) { run(b, isolated(), 0) }

// BenchmarkRunBind is `--bind / /` alone.
func BenchmarkRunBind(b *testing.B) {
	run(b, mounts.Plan{mounts.Bind("/", "/")}, nsexec.All&^nsexec.User)
}

// BenchmarkRunDefault is what a Spec with the default mounts gives.
func BenchmarkRunDefault(b *testing.B) {
	spec := nsrun.Spec{Mounts: nsrun.DefaultMounts(), Dir: "/"}
	for b.Loop() {
		if err := spec.Command("true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRunLandlock is a command without namespaces, with the same files as BenchmarkRunDefault. It measures the
// search for secrets in directories, the Landlock rules, and the filters.
func BenchmarkRunLandlock(b *testing.B) {
	if f := features.Get(features.LandlockScopes); f.Status != features.Yes {
		testenv.Skip(b, string(f.Name), f.Why)
	}
	box := plan.Sandbox{Mounts: nsrun.DefaultMounts(), Dir: "/"}
	filters := []nsexec.Filter{nsexec.DefaultFilter(), wall.Filter(wall.Options{})}
	temp := testenv.Dir(b)
	for b.Loop() {
		confined, err := box.Confine(temp, host.Files())
		if err != nil {
			b.Fatal(err)
		}
		c := nsexec.Command("true")
		c.Share, c.Dir, c.Env, c.Seccomp = nsexec.All, "/", nsrun.SafeEnv(os.Environ()), filters
		o := sandbox.Of(c)
		o.Confinement = &sandbox.Confinement{Files: confined.Files.Root, NoConnect: true}
		deputy := wall.Deputy{May: func(string) bool { return false }}
		if err := deputy.Attach(o); err != nil {
			b.Fatal(err)
		}
		if err := c.Run(); err != nil {
			b.Fatal(err)
		}
		deputy.Close()
	}
}

func BenchmarkRun500Binds(b *testing.B) {
	dir := testenv.Dir(b)
	plan := isolated(mounts.Tmpfs("/tmp"))
	for i := range 500 {
		d := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(d, 0o755); err != nil {
			b.Fatal(err)
		}
		plan = append(plan, mounts.ROBind(d, d))
	}
	run(b, plan, 0)
}

func BenchmarkRunParallel(b *testing.B) {
	plan := isolated()
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c := nsexec.Command("true")
			c.Mounts = plan
			if err := c.Run(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func compile(b *testing.B, plan mounts.Plan) *prog.Program {
	b.Helper()
	p := prog.New(prog.Native())
	if err := mountprog.Compile(p, plan, mountprog.Options{UserNamespace: true}); err != nil {
		b.Fatal(err)
	}
	return p.Program()
}

func BenchmarkCompile(b *testing.B) {
	plan := isolated(mounts.Tmpfs("/tmp"), mounts.Bind("/home", "/home"), mounts.Block("/root"))
	b.ReportAllocs()
	for b.Loop() {
		compile(b, plan)
	}
}

func BenchmarkLayout(b *testing.B) {
	program := compile(b, isolated())
	b.ReportAllocs()
	for b.Loop() {
		program.Block()
	}
}

func session(b *testing.B) (root string, o overlay.Options) {
	b.Helper()
	dir := testenv.Dir(b)
	root = filepath.Join(dir, "project")
	if err := os.Mkdir(root, 0o755); err != nil {
		b.Fatal(err)
	}
	return root, overlay.Options{Roots: []string{root}, Dir: filepath.Join(dir, "state")}
}

func BenchmarkSessionCreateRemove(b *testing.B) {
	_, o := session(b)
	for b.Loop() {
		s, err := overlay.Create(o)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Remove(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSessionChanges20(b *testing.B) {
	root, o := session(b)
	s, err := overlay.Create(o)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for i := range 20 {
		name := fmt.Sprintf("f%d", i)
		for _, dir := range []string{root, s.Roots()[0].Upper} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(dir), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	for b.Loop() {
		n := 0
		for _, err := range s.Changes() {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 20 {
			b.Fatalf("%d changes", n)
		}
	}
}
