//go:build linux && !nsrun_image

package prog

import "strconv"

// The id maps of a process that is in a new user namespace.

// Flags of openat2(2).
const (
	resolveNoXdev  = 0x1
	resolveNoMagic = 0x2
	resolveBeneath = 0x8
)

// WriteIDMaps adds the writing of a process's own id maps, in the procfs that at is a descriptor of. Names are looked
// up inside of it: what else is mounted at the caller's /proc, or below it, is not meant.
func (b *Builder) WriteIDMaps(at Slot, uid, gid Text) {
	b.Step("uid map", "/proc")
	b.Call(Procfs, at.Arg())
	how, size := b.How(WriteOnly|CloseOnExec, 0, resolveBeneath|resolveNoMagic|resolveNoXdev)
	for _, f := range [...]struct {
		op, name string
		data     Text
	}{
		{"uid map", "self/uid_map", uid}, {"gid map", "self/setgroups", b.Text("deny")}, {"gid map", "self/gid_map", gid},
	} {
		b.StepIn(f.op, "/proc", f.name)
		fd := b.Slot()
		b.Call(SysOpenat2, at.Arg(), b.String(f.name), how.Arg(), size).To(fd)
		b.Call(SysWrite, fd.Arg(), f.data.Arg(), f.data.Len()).Full()
		b.Close(fd)
	}
}

// OpenProc adds the opening of the caller's /proc.
func (b *Builder) OpenProc() Slot {
	b.Step("uid map", "/proc")
	at := b.Slot()
	b.Call(SysOpenat, AtCwd, b.String("/proc"), b.Open(PathOnly|Directory|CloseOnExec), Int(0)).To(at)
	return at
}

func (b *Builder) OneID(inside, outside uint32) Text {
	var line [32]byte
	text := strconv.AppendUint(line[:0], uint64(inside), 10)
	text = append(text, ' ')
	text = strconv.AppendUint(text, uint64(outside), 10)
	return b.TextBytes(append(text, " 1\n"...))
}
