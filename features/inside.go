//go:build linux

package features

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/internal/reexec"
)

// tryInside tries things in new namespaces, each in a process of its own, and returns what
// could be done, by name. The error of making a user namespace stands under "".
func tryInside() map[string]error {
	results := make(map[string]error)
	for _, probe := range [...]struct {
		name string
		add  func(b *prog.Builder)
	}{
		{"", func(*prog.Builder) {}},
		{nameNet, func(b *prog.Builder) { b.Call(prog.SysUnshare, prog.Int(unix.CLONE_NEWNET)) }},
		{nameMount, tmpfs},
		{nameOverlay, overlay},
		{namePID, pidProc},
	} {
		b := prog.New(prog.Native())
		b.SetNFds(1)
		b.Call(prog.SysUnshare, prog.Int(unix.CLONE_NEWUSER))
		procDir := b.OpenProc()
		b.WriteIDMaps(procDir, b.OneID(0, uint32(os.Geteuid())), b.OneID(0, uint32(os.Getegid())))
		b.Close(procDir)
		probe.add(b)
		b.Call(prog.SysExitGroup, prog.Int(0))
		err := reexec.Perform(b.Program(), nil)
		results[probe.name] = err
		if err != nil && (probe.name == "" || probe.name == nameMount) {
			break // the others stand on it
		}
	}
	return results
}

// tmpfs adds a mount namespace with a tmpfs at /tmp.
func tmpfs(b *prog.Builder) {
	b.Call(prog.SysUnshare, prog.Int(unix.CLONE_NEWNS))
	b.Call(prog.SysMount, b.String("tmpfs"), b.String("/tmp"), b.String("tmpfs"), prog.Int(0), prog.Null)
}

func mkdir(b *prog.Builder, name string) {
	b.Call(prog.SysMkdirat, prog.AtCwd, b.String(name), prog.Int(0o755))
}

// overlay adds an overlay on a tmpfs.
func overlay(b *prog.Builder) {
	tmpfs(b)
	for _, dir := range [...]string{"/tmp/lower", "/tmp/upper", "/tmp/work", "/tmp/merged"} {
		mkdir(b, dir)
	}
	b.Call(prog.SysMount, b.String("overlay"), b.String("/tmp/merged"), b.String("overlay"), prog.Int(0),
		b.String("lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work,userxattr"))
}

// pidProc adds the procfs of a new PID namespace, which is where containers that mask
// parts of /proc stop.
func pidProc(b *prog.Builder) {
	tmpfs(b)
	mkdir(b, "/tmp/proc")
	b.Call(prog.Clone, prog.Int(unix.CLONE_NEWPID))
	b.Call(prog.SysMount, b.String("proc"), b.String("/tmp/proc"), b.String("proc"), prog.Int(unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC), prog.Null)
}
