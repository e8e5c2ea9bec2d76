//go:build linux

package mountprog

import (
	"io/fs"
	"slices"
	"syscall"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/mounts"
)

type Options struct {
	// Classic uses only mount(2), for kernels before 5.12.
	Classic bool

	// Infos are the host's mounts, for the classic form.
	Infos []mounts.Info

	// Resolve resolves the links of a source path for the classic form, which looks it up in Infos. Nil: it has
	// none.
	Resolve func(string) (string, error)

	// HostRoot says that user 0 of the sandbox is root on the host: procfs would let it write settings of the host.
	HostRoot bool

	// Terminals says that the sandbox has a group 5, tty: terminals belong to it, as outside. So screen(1) of root can
	// give it one without a capability.
	Terminals bool

	// UserNamespace says that there is a new user namespace. Then all mounts are private or slaves already, and the
	// caller's root is the root of its mount namespace (user_namespaces(7)).
	UserNamespace bool

	// FirstLayer is the number of the child's first descriptor for KindLayer, Layers the number of them.
	FirstLayer, Layers int

	// Masks is the number of a descriptor in the child: of a mount with a directory d and a file f that nobody in
	// the sandbox can open, for KindBlock. Zero: they are made, and are the sandbox's.
	Masks int

	// Admin says that the command may have CAP_SYS_ADMIN where the mounts belong to: see cover.go.
	Admin bool

	// Attached adds operations after the layers are attached, before all others. Nil: none.
	Attached func()

	// Marks were made ahead, in a new user namespace and not for the classic form. Nil: there are none.
	Marks *Marks

	// ScratchFd is the first of ScratchFds free descriptor numbers in the child, for the classic form.
	ScratchFd int

	// HostProc allows the host's /proc, read-only, where the kernel refuses a new one because of mounts over it,
	// and adds operations that report this. There must be a new user namespace, which keeps the command from
	// looking into the processes there. Nil: a refusal is an error.
	HostProc func()

	// Bubblewrap does details as bubblewrap 0.12 does: writable mounts for the devices of KindDev, and fewer
	// covered files in KindProc.
	Bubblewrap bool
}

// ScratchFds is how many numbers from Options.ScratchFd on are used.
const ScratchFds = 3

// Numbers from linux/mount.h, linux/openat2.h, linux/fcntl.h, linux/stat.h.
const (
	openTreeClone   = 0x1
	openTreeCloexec = 0x80000
	atRecursive     = 0x8000
	atEmptyPath     = 0x1000
	atNoFollow      = 0x100

	moveFromEmpty = 0x4
	moveToEmpty   = 0x40

	attrReadOnly = 0x1
	attrNoSuid   = 0x2
	attrNoDev    = 0x4
	attrNoExec   = 0x8

	fsopenCloexec     = 0x1
	fsmountCloexec    = 0x1
	fsconfigSetFlag   = 0
	fsconfigSetString = 1
	fsconfigCreate    = 6
	resolveNoMagic    = 0x2
	resolveNoSymlinks = 0x4
	resolveInRoot     = 0x10
	msRemount         = 0x20
	msBind            = 0x1000
	msMove            = 0x2000
	msRec             = 0x4000
	msUnbindable      = 0x20000
	msPrivate         = 0x40000
	msSlave           = 0x80000
	mntDetach         = 0x2
	statxType         = 0x1
	statxModeOffset   = 0x1c // of stx_mode, 16 bits, in struct statx

	statxInoOffset = 0x20 // of stx_ino, 64 bits
	statxDevOffset = 0x88 // of stx_dev_major and stx_dev_minor, 32 bits each
	statxBasic     = 0x7ff
	dontSync       = 0x4000
	writeOK        = 2
	atEAccess      = 0x200

	statxSize          = 0x100
	sIFMT, sIFDIR      = 0o170000, 0o040000
	sIFREG, sIFLNK     = 0o100000, 0o120000
	sIFCHR             = 0o020000
	defaultParentPerm  = 0o755
	enoent, eloop      = syscall.ENOENT, syscall.ELOOP
	enotdir, estale    = syscall.ENOTDIR, syscall.ESTALE
	ebadf              = syscall.EBADF
	fGetfd             = 1
	fDupfdCloexec      = 1030
	defaultDataPerm    = 0o600
	sizeofMountAttr    = 32
	shmPerm            = 0o1777
	defaultTmpfsPerm   = 0o755
	defaultFilePerm    = 0o644
	mountPointFilePerm = 0o444
)

type compiler struct {
	*prog.Builder
	o        Options
	base     prog.Slot // what holds the host's root and the new one, see prepare
	root     prog.Slot // the new root
	attached bool      // root is valid
	how      [5]prog.Ptr
	haveHow  [5]bool
	howSize  prog.Arg
	statx    prog.Ptr
	linkText prog.Ptr // see symlink; 0: none yet

	// Opened sources of binds, in order, and how many were used; the same for the devices of each KindDev.
	sources, devices         prog.Slot
	opened, used, usedOfDevs int
	devicesOpen              bool
	consoleFd                prog.Slot // the terminal, if devicesOpen

	lowest []prog.Slot // lower directories that were opened and are to be used, see openLowest

	plan   mounts.Plan
	index  int               // of the mount that is being added
	on     []footing         // of the mounts; nil: none needs one
	held   []prog.Slot       // the roots of those on which others stand, see footing
	kept   []keptMount       // for later remounts
	hidden int               // names in base that are taken
	flags  map[string]uint64 // classic: of the mounts made so far, by target
	attrs  [8]struct {       // by flags to set and to clear
		set, clear uint64
		at         prog.Ptr
	}
	nattrs int
}

// Compile adds to b the operations that set up p and make it the root of the
// calling process, with the working directory at "/". The umask must be zero.
func Compile(b *prog.Builder, p mounts.Plan, o Options) error {
	if b.Fixed() {
		if !simple(p) {
			return tooComplex{}
		}
		return compile(b, p, o)
	}
	if err := p.Validate(); err != nil {
		return err
	}
	if o.Classic && !slices.ContainsFunc(o.Infos, func(in mounts.Info) bool { return in.Target == "/" }) {
		return &mounts.Error{Op: "mount", Path: "/", Err: mounts.ErrRootNoMount}
	}
	return compile(b, p, o)
}

func compile(b *prog.Builder, p mounts.Plan, o Options) error {
	c := compiler{Builder: b, o: o, plan: p}
	c.statx = b.Zero(statxSize)
	if !o.Bubblewrap { // which has nothing of the kind
		c.on = footings(p)
		c.held = make([]prog.Slot, len(c.on))
	}
	if inPlace(p) && o.UserNamespace && !o.Classic {
		c.begin()
		return c.inPlace(p)
	}
	if err := c.layers(p); err != nil {
		return err
	}
	c.begin()
	c.findSources(p)
	c.prepare(p)
	if len(p) == 0 || relative(p[0].Target) != "" || !isMount(&p[0]) {
		base := mounts.Tmpfs("/")
		if err := c.mount(&base); err != nil {
			return err
		}
	}
	if err := c.mountAll(p, 0); err != nil {
		return err
	}
	c.pivot()
	return nil
}

// begin runs after the layers are attached.
func (c *compiler) begin() {
	if c.o.Masks != 0 && !slices.ContainsFunc(c.plan, func(m mounts.Mount) bool { return m.Kind == mounts.KindBlock }) {
		c.Call(prog.SysClose, prog.Int(c.o.Masks))
	}
	if c.o.Attached != nil {
		c.o.Attached()
	}
}

// mountAll adds the steps of p from the given index on.
func (c *compiler) mountAll(p mounts.Plan, from int) error {
	for i := from; i < len(p); i++ {
		c.Mount(i)
		c.index = i
		if err := c.mount(&p[i]); err != nil {
			return err
		}
	}
	c.Mount(-1)
	return nil
}

func isMount(m *mounts.Mount) bool {
	return m.Kind == mounts.KindBind || m.Kind == mounts.KindTmpfs || m.Kind == mounts.KindOverlay
}

// hides reports whether m needs a place that the sandbox does not show.
func hides(m *mounts.Mount) bool {
	return m.Kind == mounts.KindData || m.Kind == mounts.KindOverlay && (m.Temporary || fronted(m))
}

// prepare makes a tmpfs the root of the namespace; h has the host's root and r will have the new one. The process's
// root stays the host's, so absolute paths and links of sources lead where they did. Nothing may be mounted over the
// new root, because ".." would lead there.
func (c *compiler) prepare(p mounts.Plan) {
	block, hidden := false, false
	for i := range p {
		block = block || p[i].Kind == mounts.KindBlock
		hidden = hidden || hides(&p[i])
	}
	c.Step("prepare", "/")
	host := c.Slot()
	c.Call(prog.SysOpenat, prog.AtCwd, c.String("/"), c.Open(prog.PathOnly|prog.Directory|prog.CloseOnExec), prog.Int(0)).To(host)
	var base tree
	if c.o.Marks != nil {
		fd := prog.Int(c.o.Marks.Fd)
		base.fd = c.Slot()
		c.Call(prog.SysFcntl, fd, prog.Int(fDupfdCloexec), prog.Int(0)).To(base.fd)
		c.Call(prog.SysClose, fd)
	} else {
		base = c.newBase(hidden)
	}
	if !c.o.UserNamespace {
		c.Step("prepare", "/..")
		c.climb(host, base)
		c.Call(prog.SysMount, prog.Null, c.String("/"), prog.Null, prog.Int(msRec|msSlave), prog.Null)
		c.Step("prepare", "/")
	}
	c.base = c.stackRoot(base)
	for _, name := range [...]string{"h", "r"} {
		c.Call(prog.SysMkdirat, c.base.Arg(), c.String(name), prog.Int(0o700))
	}
	switch {
	case block && c.o.Masks != 0:
		at, masks := c.Slot(), prog.Int(c.o.Masks)
		c.Call(prog.SysMkdirat, c.base.Arg(), c.String(maskDir), prog.Int(0o700))
		c.Call(prog.SysOpenat, c.base.Arg(), c.String(maskDir), c.Open(prog.PathOnly|prog.Directory|prog.CloseOnExec), prog.Int(0)).To(at)
		c.Call(prog.SysMoveMount, masks, c.String(""), at.Arg(), c.String(""), prog.Int(moveFromEmpty|moveToEmpty))
		c.Close(at)
		c.Call(prog.SysClose, masks)
	case block:
		c.Call(prog.SysMkdirat, c.base.Arg(), c.String("d"), prog.Int(0))
		c.Call(prog.SysMknodat, c.base.Arg(), c.String("f"), prog.Int(sIFREG), prog.Int(0))
	}
	c.Call(prog.SysFchdir, c.base.Arg())
	c.replace(host)
	c.Call(prog.SysFchdir, host.Arg())
	c.Call(prog.SysChroot, c.String("."))
	c.Close(host)
}

const maskDir = "m"

// newBase makes the tmpfs; one that is not filled has no space.
func (c *compiler) newBase(filled bool) tree {
	if filled {
		return c.newFS("tmpfs", attrNoSuid|attrNoDev, option{key: "mode", value: "700"})
	}
	return c.newFS("tmpfs", attrNoSuid|attrNoDev|attrNoExec, option{key: "mode", value: "700"}, option{key: "size", value: "4096"})
}

// levels is how far climb climbs: as far as one path can.
const levels = 4095 / len("../")

// climb makes the root of the mount namespace the process's root: above a root made by chroot(2) would be a way out of
// the sandbox. ".." stops at the process's root only, so that must be elsewhere meanwhile: at base, or at a directory
// of the classic form.
func (c *compiler) climb(host prog.Slot, base tree) {
	dot := c.String(".")
	if c.o.Classic {
		c.Call(prog.SysChroot, c.String("/proc"))
	} else {
		c.Call(prog.SysFchdir, base.fd.Arg())
		c.Call(prog.SysChroot, dot)
	}
	c.Call(prog.SysFchdir, host.Arg())
	c.Call(prog.SysChdir, c.Repeat("../", levels))
	c.Call(prog.SysChroot, dot)
}

// pivot makes the new root the root and unmounts the rest.
func (c *compiler) pivot() {
	c.letGo()
	c.Step("pivot", "/")
	dot := c.String(".")
	c.Call(prog.SysFchdir, c.base.Arg())
	c.Call(prog.SysChroot, dot)
	c.Call(prog.SysFchdir, c.root.Arg())
	c.Call(prog.SysPivotRoot, dot, dot)
	c.Call(prog.SysUmount2, dot, prog.Int(mntDetach))
	c.Call(prog.SysChdir, c.String("/"))
	c.Close(c.base)
	c.Close(c.root)
}

func (c *compiler) mount(m *mounts.Mount) error {
	switch m.Kind {
	case mounts.KindBind:
		return c.bind(m)
	case mounts.KindTmpfs:
		c.tmpfs(m)
	case mounts.KindData:
		c.data(m)
	case mounts.KindOverlay:
		return c.overlay(m)
	case mounts.KindProc:
		c.proc(m)
	case mounts.KindDev:
		c.dev(m)
	case mounts.KindMqueue:
		c.Step("mqueue", m.Target)
		flags := uint64(attrNoSuid | attrNoDev | attrNoExec)
		if c.o.Bubblewrap {
			flags = 0
		}
		dst := c.dirTarget(m)
		c.attach(c.newFS("mqueue", flags), m, dst)
	case mounts.KindDir:
		c.dir(m)
	case mounts.KindFile:
		c.file(m)
	case mounts.KindSymlink:
		c.symlink(m)
	case mounts.KindRemount:
		c.remount(m)
	case mounts.KindBlock:
		c.block(m)
	case mounts.KindChmod:
		c.chmod(m)
	}
	return nil
}

func perm(m *mounts.Mount, otherwise uint32) uint32 {
	if m.HasPerm || m.Perm != 0 {
		return unixMode(m.Perm)
	}
	return otherwise
}

func unixMode(mode fs.FileMode) uint32 {
	m := uint32(mode.Perm())
	if mode&fs.ModeSetuid != 0 {
		m |= 0o4000
	}
	if mode&fs.ModeSetgid != 0 {
		m |= 0o2000
	}
	if mode&fs.ModeSticky != 0 {
		m |= 0o1000
	}
	return m
}

func attrs(m *mounts.Mount) uint64 {
	a := uint64(attrNoSuid)
	if !m.Devices {
		a |= attrNoDev
	}
	if m.ReadOnly {
		a |= attrReadOnly
	}
	return a
}

// setattr adds flags to a tree and makes it private, so that later mounts of the host do not appear in it, writable.
func (c *compiler) setattr(fd prog.Slot, recursive int, set uint64) {
	c.changeAttr(fd, recursive, set, 0)
}

// changeAttr is setattr that can also clear flags.
func (c *compiler) changeAttr(fd prog.Slot, recursive int, set, clear uint64) {
	i := 0
	for i < c.nattrs && (c.attrs[i].set != set || c.attrs[i].clear != clear) {
		i++
	}
	if i == len(c.attrs) {
		c.nattrs, i = 0, 0 // so many kinds do not occur
	}
	if i == c.nattrs {
		c.attrs[i].set, c.attrs[i].clear = set, clear
		c.attrs[i].at = c.Words(set, clear, msPrivate, 0) // struct mount_attr
		c.nattrs++
	}
	c.Call(prog.SysMountSetattr, fd.Arg(), c.String(""), prog.Int(atEmptyPath|recursive), c.attrs[i].at.Arg(), prog.Int(sizeofMountAttr))
}

// keptMount is a mount that a later step makes read-only.
type keptMount struct {
	by   int // the index of that step
	root prog.Slot
}

// release closes the root of the added mount unless a later step needs it: the owner of a parent directory could
// exchange it.
func (c *compiler) release(root prog.Slot) {
	for i := c.index + 1; i < len(c.plan); i++ {
		if m := &c.plan[i]; m.Kind == mounts.KindRemount && relative(m.Target) == relative(c.plan[c.index].Target) {
			c.kept = append(c.kept, keptMount{i, root})
			return
		}
	}
	if c.footing().held {
		c.held[c.index] = root
		return
	}
	c.Close(root)
}

// letGo closes the roots that were held for later steps.
func (c *compiler) letGo() {
	for i := range c.on {
		if c.on[i].held && relative(c.plan[i].Target) != "" {
			c.Close(c.held[i])
		}
	}
}

func (c *compiler) keptFor() (root prog.Slot, ok bool) {
	for _, k := range c.kept {
		if k.by == c.index {
			root, ok = k.root, true
		}
	}
	return root, ok
}

func (c *compiler) remount(m *mounts.Mount) {
	c.Step("remount", m.Target)
	rel := relative(m.Target)
	var skip prog.Label
	dst, root := c.root, rel == ""
	if !root {
		dst = c.Slot()
		how, size := c.howIn(1)
		c.Part(prog.PartTarget)
		open := c.Call(prog.SysOpenat2, c.root.Arg(), c.String(rel), how, size).To(dst)
		if m.Optional {
			skip = open.Tolerate(enoent).OnTolerated()
		}
		c.refuseLink(dst)
		c.Step("remount", m.Target)
		if k, kept := c.keptFor(); kept {
			c.Call(prog.SameMnt, k.Arg(), dst.Arg())
			c.Close(dst)
			dst = k
		}
	}
	c.Step("remount", m.Target)
	if c.o.Classic {
		// Flags that are not repeated are lost, and the kernel refuses to drop some.
		flags := c.flags[rel] | uint64(mounts.FlagReadOnly|mounts.FlagNoSuid|mounts.FlagNoDev)
		c.mountOn(dst, "", "", msRemount|msBind|flags, "", noSource)
	} else {
		// EINVAL: not a mount point.
		c.setattr(dst, 0, attrReadOnly|attrNoSuid|attrNoDev)
	}
	if !root {
		c.Close(dst)
	}
	c.Here(skip)
}
