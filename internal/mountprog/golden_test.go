//go:build linux

package mountprog_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"unsafe"

	"github.com/nsrun/nsrun/internal/mountprog"
	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
)

// TestCompile compares Programs with golden files: every kind of mount, with the
// new calls and with the classic ones, for both architectures. No kernel is
// asked. Behind each operation stands the number of its system call.
func TestCompile(t *testing.T) {
	infos := []mounts.Info{
		{ID: 1, Target: "/"}, {ID: 2, Parent: 1, Target: "/home"}, {ID: 3, Parent: 2, Target: "/home/me/mnt"},
		{ID: 4, Parent: 3, Target: "/home/me/mnt/deep", Flags: mounts.FlagReadOnly},
	}
	file := mounts.FileID{Ino: 5<<32 | 6, Major: 8, Minor: 1}
	for _, c := range []struct {
		name string
		plan mounts.Plan
		o    mountprog.Options
	}{
		{"empty", nil, mountprog.Options{}},
		{"host", mounts.Plan{
			mounts.ROBind("/", "/"), mounts.Dev("/dev"), mounts.Proc("/proc"), mounts.Tmpfs("/tmp"),
			mounts.Bind("/home/me/src", "/home/me/src"),
		}, mountprog.Options{UserNamespace: true}},
		{"host-as-root", mounts.Plan{
			mounts.ROBind("/", "/"), mounts.Proc("/proc"), mounts.Remount("/tmp"),
		}, mountprog.Options{HostRoot: true}},
		{"built", mounts.Plan{
			mounts.Tmpfs("/").WithSize(1 << 20), mounts.ROBind("/usr", "/usr"), mounts.Symlink("usr/bin", "/bin"),
			mounts.Dir("/var/lib/x").WithPerm(0o700), mounts.File("/etc/passwd", []byte("root:x:0:0\n")).WithPerm(0o444),
			mounts.Chmod(fs.ModeSticky|0o777, "/var"), mounts.Remount("/"),
		}, mountprog.Options{UserNamespace: true}},
		{"binds", mounts.Plan{
			mounts.Bind("/home/me", "/home/me"), mounts.DevBind("/dev/fuse", "/dev/fuse"), mounts.ROBind("/opt", "/opt").Try(),
			{Kind: mounts.KindBind, Source: "/srv", Target: "/srv", NonRecursive: true, MustExist: true},
			{Kind: mounts.KindBind, Source: "/a", Target: "/b/c", ParentPerm: 0o700},
		}, mountprog.Options{UserNamespace: true}},
		{"overlay", mounts.Plan{
			mounts.Overlay("/src", "/state/up:per", "/state/wo,rk", "/src", `/a\b`), mounts.ROOverlay("/ro", "/1", "/2"),
		}, mountprog.Options{UserNamespace: true}},
		{"home", mounts.Plan{
			mounts.ROBind("/", "/"),
			{Kind: mounts.KindOverlay, Target: "/home/me", Lower: []string{"/home/me"}, ReadOnly: true, Hide: []string{".ssh"}, Texts: []mounts.Text{{Path: ".m2/settings.xml", Data: []byte("x")}}},
			{Kind: mounts.KindOverlay, Target: "/home/me", Lower: []string{"/layer"}, Upper: "/up", Work: "/work", Over: true},
		}, mountprog.Options{UserNamespace: true}},
		{"block", mounts.Plan{
			mounts.ROBind("/", "/"), mounts.Block("/home/me/.ssh"), mounts.Chmod(0, "/gone").Try(), mounts.Remount("/x").Try(),
		}, mountprog.Options{UserNamespace: true}},
		{"pins", mounts.Plan{
			mounts.ROBind("/", "/"), mounts.Bind("/home/me/src", "/home/me/src"), mounts.Block("/home/me/src/a/.env"), mounts.ROBind("/opt", "/home/me/src/a/b/c"),
			mounts.Tmpfs("/tmp"), mounts.ROBind("/opt", "/tmp/x/y"),
		}, mountprog.Options{UserNamespace: true}},
		{"checked", mounts.Plan{
			mounts.ROBind("/", "/"), {Kind: mounts.KindOverlay, Target: "/p", Lower: []string{"/l", "/p"}, Upper: "/up", Work: "/work", Same: file, Onto: file},
			{Kind: mounts.KindBind, Source: "/d", Target: "/d", Same: file, Onto: file}, {Kind: mounts.KindBind, Source: "/o", Target: "/d/o", Onto: file},
		}, mountprog.Options{UserNamespace: true, ScratchFd: 67}},
		{"devices", mounts.Plan{
			mounts.Dev("/dev"), mounts.Mqueue("/dev/mqueue"),
		}, mountprog.Options{UserNamespace: true}},
		{"spelling", mounts.Plan{
			mounts.Tmpfs("//a/./b//../c/"), mounts.Dir("/new\nline"), mounts.Tmpfs("/x/.."),
		}, mountprog.Options{UserNamespace: true}},
	} {
		for _, arch := range []struct {
			arch prog.Arch
			name string
		}{{prog.AMD64, "amd64"}, {prog.ARM64, "arm64"}} {
			for _, classic := range []bool{false, true} {
				name := c.name + "." + arch.name + ".txt"
				o := c.o
				if classic {
					name = c.name + ".classic." + arch.name + ".txt"
					o.Classic, o.Infos, o.ScratchFd = true, infos, 67
				}
				t.Run(name, func(t *testing.T) {
					b := prog.New(arch.arch)
					if err := mountprog.Compile(b, c.plan, o); err != nil {
						t.Fatal(err)
					}
					testenv.Golden(t, name, text(t, b.Program()))
				})
			}
		}
	}
}

// text is the Program's text with numbers of system calls.
func text(t *testing.T, p *prog.Program) []byte {
	t.Helper()
	var b, out bytes.Buffer
	if err := p.Format(&b); err != nil {
		t.Fatal(err)
	}
	block := p.Block()
	h := (*prog.Header)(unsafe.Pointer(&block[0]))
	ops := unsafe.Slice((*prog.Op)(unsafe.Pointer(&block[h.Ops])), h.NOps)
	for line := range bytes.Lines(b.Bytes()) {
		if line[0] == ' ' {
			if nr := ops[0].Nr; nr < 0xffff0000 {
				line = fmt.Appendf(bytes.TrimSuffix(line, []byte("\n")), "  #%d\n", nr)
			}
			ops = ops[1:]
		}
		out.Write(line)
	}
	if len(ops) != 0 {
		t.Errorf("%d operations were not printed", len(ops))
	}
	return out.Bytes()
}

// TestLongLayers: what the kernel would cut off is an error, in both forms.
func TestLongLayers(t *testing.T) {
	for _, classic := range []bool{false, true} {
		o := mountprog.Options{Classic: classic, Infos: []mounts.Info{{ID: 1, Target: "/"}}}
		layer := "/" + strings.Repeat("x", 1300)
		fits := mounts.ROOverlay("/o", layer, layer, layer)
		if err := mountprog.Compile(prog.New(prog.AMD64), mounts.Plan{fits}, o); err != nil {
			t.Errorf("classic %v: %v", classic, err)
		}
		long := mounts.ROOverlay("/o", layer, layer, layer, layer)
		if err := mountprog.Compile(prog.New(prog.AMD64), mounts.Plan{long}, o); !errors.Is(err, mounts.ErrLongLayers) {
			t.Errorf("classic %v: got %v", classic, err)
		}
	}
}
