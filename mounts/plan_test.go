//go:build linux

package mounts_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/internal/mountprog"
	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/mounts"
)

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name string
		m    mounts.Mount
		err  error
		text string // of the error
	}{
		{"bind", mounts.Bind("/a", "/b"), nil, ""},
		{"bind root", mounts.ROBind("/", "/"), nil, ""},
		{"bind relative source", mounts.Bind("a", "/b"), mounts.ErrNotAbsolute, "bind a: path is not absolute"},
		{"bind relative target", mounts.Bind("/a", "b"), mounts.ErrNotAbsolute, "bind b: path is not absolute"},
		{"bind no source", mounts.Bind("", "/b"), mounts.ErrNotAbsolute, ""},
		{"bind no target", mounts.Bind("/a", ""), mounts.ErrNotAbsolute, ""},
		{"bind NUL in source", mounts.Bind("/a\x00", "/b"), mounts.ErrNUL, ""},
		{"bind NUL in target", mounts.Bind("/a", "/b\x00c"), mounts.ErrNUL, ""},
		{"bind dots", mounts.Bind("/a", "/../b/."), nil, ""},
		{"tmpfs", mounts.Tmpfs("/tmp"), nil, ""},
		{"tmpfs root", mounts.Tmpfs("/"), nil, ""},
		{"tmpfs relative", mounts.Tmpfs("tmp"), mounts.ErrNotAbsolute, ""},
		{"proc", mounts.Proc("/proc"), nil, ""},
		{"proc at root", mounts.Proc("/"), nil, ""},
		{"proc at root, spelled otherwise", mounts.Proc("//./"), nil, ""},
		{"dev", mounts.Dev("/dev"), nil, ""},
		{"dev at root", mounts.Dev("/."), nil, ""},
		{"mqueue at root", mounts.Mqueue("/"), nil, ""},
		{"overlay", mounts.Overlay("/o", "/u", "/w", "/l"), nil, ""},
		{"overlay at root", mounts.Overlay("/", "/u", "/w", "/l"), nil, ""},
		{"overlay no lower", mounts.Overlay("/o", "/u", "/w"), mounts.ErrLayers, ""},
		{"overlay no upper", mounts.Overlay("/o", "", "/w", "/l"), mounts.ErrLayers, ""},
		{"overlay no work", mounts.Overlay("/o", "/u", "", "/l"), mounts.ErrLayers, ""},
		{"overlay relative upper", mounts.Overlay("/o", "u", "/w", "/l"), mounts.ErrNotAbsolute, "overlay u: path is not absolute"},
		{"overlay relative work", mounts.Overlay("/o", "/u", "w", "/l"), mounts.ErrNotAbsolute, ""},
		{"overlay relative lower", mounts.Overlay("/o", "/u", "/w", "/l", "m"), mounts.ErrNotAbsolute, ""},
		{"overlay NUL in upper", mounts.Overlay("/o", "/u\x00", "/w", "/l"), mounts.ErrNUL, ""},
		{"read-only overlay", mounts.ROOverlay("/o", "/a", "/b"), nil, ""},
		{"read-only overlay of one", mounts.ROOverlay("/o", "/a"), mounts.ErrLayers, ""},
		{"dir", mounts.Dir("/d"), nil, ""},
		{"dir at root", mounts.Dir("/"), nil, ""},
		{"file", mounts.File("/f", nil), nil, ""},
		{"file at root", mounts.File("/", nil), mounts.ErrRootTarget, ""},
		{"symlink", mounts.Symlink("../x", "/l"), nil, ""},
		{"symlink without text", mounts.Symlink("", "/l"), mounts.ErrNoSymlinkTxt, "symlink /l: a symbolic link needs a target"},
		{"symlink NUL", mounts.Symlink("a\x00", "/l"), mounts.ErrNUL, ""},
		{"symlink at root", mounts.Symlink("a", "/"), mounts.ErrRootTarget, ""},
		{"remount", mounts.Remount("/r"), nil, ""},
		{"remount root", mounts.Remount("/"), nil, ""},
		{"block", mounts.Block("/b"), nil, ""},
		{"block root", mounts.Block("/"), mounts.ErrRootTarget, ""},
		{"chmod", mounts.Chmod(0o700, "/c"), nil, ""},
		{"chmod root", mounts.Chmod(0o700, "/"), nil, ""},
		{"longest link", mounts.Symlink(strings.Repeat("x", 4095), "/l"), nil, ""},
		{"link too long", mounts.Symlink(strings.Repeat("x", 4096), "/l"), syscall.ENAMETOOLONG, ""},
		{"target too long", mounts.Tmpfs("/" + strings.Repeat("x", 4095)), syscall.ENAMETOOLONG, ""},
		{"layer too long", mounts.Overlay("/o", "/u", "/w", "/"+strings.Repeat("x", 4095)), syscall.ENAMETOOLONG, ""},
		{"source too long", mounts.Bind("/"+strings.Repeat("x", 4095), "/b"), syscall.ENAMETOOLONG, ""},
		{"zero", mounts.Mount{}, mounts.ErrKind, "mount: unknown kind of mount"},
		{"unknown kind", mounts.Mount{Kind: 200, Target: "/"}, mounts.ErrKind, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Behind a good step: every step is looked at.
			err := mounts.Plan{mounts.Tmpfs("/"), c.m}.Validate()
			if !errors.Is(err, c.err) {
				t.Fatalf("got %v, want %v", err, c.err)
			}
			if c.err == nil {
				return
			}
			if e, ok := errors.AsType[*mounts.Error](err); !ok || e.Err != c.err {
				t.Errorf("got %#v", err)
			}
			if c.text != "" && err.Error() != c.text {
				t.Errorf("got %q, want %q", err, c.text)
			}
			if cerr := mountprog.Compile(prog.New(prog.AMD64), mounts.Plan{c.m}, mountprog.Options{}); !errors.Is(cerr, c.err) {
				t.Errorf("Compile says %v", cerr)
			}
		})
	}
	if err := (mounts.Plan)(nil).Validate(); err != nil {
		t.Errorf("the empty plan: %v", err)
	}
}

// TestModifiersCopy: a modifier leaves what it was called on.
func TestModifiersCopy(t *testing.T) {
	m := mounts.Bind("/a", "/b")
	for name, changed := range map[string]mounts.Mount{
		"RO": m.RO(), "Try": m.Try(), "WithPerm": m.WithPerm(0), "WithSize": m.WithSize(1),
	} {
		if m.ReadOnly || m.Optional || m.HasPerm || m.Size != 0 {
			t.Fatalf("%s changed the original: %+v", name, m)
		}
		if changed.Kind != m.Kind || changed.Source != m.Source || changed.Target != m.Target {
			t.Errorf("%s lost something: %+v", name, changed)
		}
	}
}

func TestKindString(t *testing.T) {
	seen := make(map[string]bool)
	for k := mounts.KindBind; k <= mounts.KindChmod; k++ {
		name := k.String()
		if name == "" || name == "mount" || seen[name] || strings.ToLower(name) != name {
			t.Errorf("kind %d is %q", k, name)
		}
		seen[name] = true
	}
	if got := mounts.Kind(200).String(); got != "mount" {
		t.Errorf("an unknown kind is %q", got)
	}
}
