package mounts

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/nsrun/nsrun/internal/prog"
)

// Options say how a Plan is compiled.
type Options struct {
	// Classic uses mount(2) only, for kernels before 5.12. False: the new calls.
	Classic bool

	// Infos are the host's mounts, which only the classic form needs.
	Infos []Info

	// Resolve makes a source path free of symbolic links, for the classic form,
	// which has to find it in Infos. Nil: it is taken as it is.
	Resolve func(string) (string, error)

	// HostRoot says that the sandbox's user id 0 is root on the host: then procfs
	// lets it write what concerns the whole host, unless that is mounted read-only.
	HostRoot bool

	// UserNamespace says that a new user namespace was made. Then the kernel has
	// made all mounts private or slaves already, and it has made sure that the
	// caller's root is the root of its mount namespace: nobody with another one gets
	// a user namespace (user_namespaces(7)).
	UserNamespace bool

	// ScratchFd is a descriptor number that is free in the child, for the classic
	// form.
	ScratchFd int
}

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
	msRec             = 0x4000
	msPrivate         = 0x40000
	msSlave           = 0x80000
	mntDetach         = 0x2
	statxType         = 0x1
	statxModeOffset   = 0x1c // of stx_mode, 16 bits, in struct statx

	statxSize          = 0x100
	sIFMT, sIFDIR      = 0o170000, 0o040000
	sIFREG, sIFLNK     = 0o100000, 0o120000
	defaultParentPerm  = 0o755
	enoent, eloop      = syscall.ENOENT, syscall.ELOOP
	enotdir            = syscall.ENOTDIR
	sizeofMountAttr    = 32
	shmPerm            = 0o1777
	defaultTmpfsPerm   = 0o755
	defaultFilePerm    = 0o644
	mountPointFilePerm = 0o444
)

// compiler holds what later steps need of earlier ones.
type compiler struct {
	*prog.Builder
	o        Options
	base     prog.Slot // what holds the host's root and the new one, see prepare
	root     prog.Slot // the new root
	attached bool      // root is valid
	how      [4]prog.Ptr
	haveHow  [4]bool
	howSize  prog.Arg
	statx    prog.Ptr
	sources  map[*Mount]source
	devices  map[deviceKey]prog.Slot
	flags    map[string]uint64      // classic: of the mounts made so far, by target
	attrs    map[[2]uint64]prog.Ptr // by flags to set and to clear
}

// Compile adds to b the operations that set up p and make it the root of the
// calling process, with the working directory at "/". The umask must be zero.
func (p Plan) Compile(b *prog.Builder, o Options) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if o.Classic && !slices.ContainsFunc(o.Infos, func(in Info) bool { return in.Target == "/" }) {
		return &Error{"mount", "/", ErrRootNoMount}
	}
	c := &compiler{Builder: b, o: o, attrs: make(map[[2]uint64]prog.Ptr, 4)}
	c.statx = b.Zero(statxSize)
	if p.inPlace() && o.UserNamespace && !o.Classic {
		return c.inPlace(p)
	}
	c.prepare(slices.ContainsFunc(p, func(m Mount) bool { return m.Kind == KindBlock }))
	if len(p) == 0 || relative(p[0].Target) != "" || !p[0].isMount() {
		base := Tmpfs("/")
		if err := c.mount(&base); err != nil {
			return err
		}
	}
	if err := c.mountAll(p); err != nil {
		return err
	}
	c.pivot()
	return nil
}

func (c *compiler) mountAll(p Plan) error {
	for i := range p {
		if err := c.mount(&p[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *Mount) isMount() bool {
	switch m.Kind {
	case KindBind, KindTmpfs, KindOverlay:
		return true
	}
	return false
}

// prepare makes a tmpfs the root of the namespace that holds the host's root as h
// and will hold the new one as r, and what Block shows, if that is needed. The
// process's root stays the host's: absolute paths, those in links of sources
// included, lead where they led, and a bind of "/" holds nothing of this. Nothing
// may be mounted over the new root: ".." would lead there.
func (c *compiler) prepare(block bool) {
	c.Step("prepare", "/")
	host := c.Slot()
	c.Call(prog.SysOpenat, prog.AtCwd, c.String("/"), c.Open(prog.PathOnly|prog.Directory|prog.CloseOnExec), prog.Int(0)).To(host)
	base := c.newFS("tmpfs", attrNoSuid|attrNoDev|attrNoExec, option{"mode", "700"}, option{"size", "4096"})
	if !c.o.UserNamespace {
		c.climb(host, base)
		c.Call(prog.SysMount, prog.Null, c.String("/"), prog.Null, prog.Int(msRec|msSlave), prog.Null)
	}
	c.base = c.stackRoot(base)
	for _, name := range [...]string{"h", "r"} {
		c.Call(prog.SysMkdirat, c.base.Arg(), c.String(name), prog.Int(0o700))
	}
	if block {
		c.Call(prog.SysMkdirat, c.base.Arg(), c.String("d"), prog.Int(0))
		c.Call(prog.SysMknodat, c.base.Arg(), c.String("f"), prog.Int(sIFREG), prog.Int(0))
	}
	c.Call(prog.SysFchdir, c.base.Arg())
	c.Call(prog.SysPivotRoot, c.String("."), c.String("h"))
	c.Call(prog.SysFchdir, host.Arg())
	c.Call(prog.SysChroot, c.String("."))
	c.Close(host)
}

// levels is how far climb climbs: as far as one path can say.
const levels = 4095 / len("../")

// climb makes the root of the mount namespace the process's root: the caller's,
// host, may be another (chroot(2)), and what is above it would be a way out of the
// sandbox. ".." stops at the process's root only, so that must be elsewhere
// meanwhile: at base, or where that is not made yet at a directory that the
// classic form needs anyway.
func (c *compiler) climb(host prog.Slot, base tree) {
	dot := c.String(".")
	if c.o.Classic {
		c.Call(prog.SysChroot, c.String("/proc"))
	} else {
		c.Call(prog.SysFchdir, base.fd.Arg())
		c.Call(prog.SysChroot, dot)
	}
	c.Call(prog.SysFchdir, host.Arg())
	c.Call(prog.SysChdir, c.String(strings.Repeat("../", levels)))
	c.Call(prog.SysChroot, dot)
}

// pivot makes the new root the root, and lets go of all else.
func (c *compiler) pivot() {
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

func (c *compiler) mount(m *Mount) error {
	switch m.Kind {
	case KindBind:
		return c.bind(m)
	case KindTmpfs:
		c.tmpfs(m)
	case KindOverlay:
		return c.overlay(m)
	case KindProc:
		c.proc(m)
	case KindDev:
		c.dev(m)
	case KindMqueue:
		c.Step("mqueue", m.Target)
		c.attach(c.newFS("mqueue", attrNoSuid|attrNoDev|attrNoExec), m, alwaysDir)
	case KindDir:
		c.dir(m)
	case KindFile:
		c.file(m)
	case KindSymlink:
		c.symlink(m)
	case KindRemount:
		c.remount(m)
	case KindBlock:
		c.block(m)
	case KindChmod:
		c.chmod(m)
	}
	return nil
}

func (m *Mount) perm(otherwise uint32) uint32 {
	if m.HasPerm || m.Perm != 0 {
		return unixMode(m.Perm)
	}
	return otherwise
}

// unixMode is mode as chmod(2) takes it.
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

func (m *Mount) attrs() uint64 {
	a := uint64(attrNoSuid)
	if !m.Devices {
		a |= attrNoDev
	}
	if m.ReadOnly {
		a |= attrReadOnly
	}
	return a
}

// A tree is a mount that is not attached yet: in the new form a descriptor; in
// the classic form only the arguments of the mount(2) that will make it.
type tree struct {
	fd      prog.Slot
	classic bool
	source  string // classic: what to mount …
	fstype  string // … "" for a bind
	flags   uint64
	data    string
	below   []Info // classic bind: the mounts in it
}

// source is a tree that was cloned for a bind, and what to skip if it was not
// there.
type source struct {
	tree
	missing []prog.Label
}

// open finds the source of a bind.
func (c *compiler) open(m *Mount) (s source, err error) {
	c.Step("bind", m.Source)
	s.source, s.flags, s.classic = m.Source, m.attrs(), c.o.Classic
	var open prog.Ref
	if c.o.Classic {
		if err := c.classicSource(m, &s.tree); err != nil {
			return s, err
		}
		s.fd = c.Slot()
		open = c.Call(prog.SysOpenat, prog.AtCwd, c.String(m.Source), c.Open(prog.PathOnly|prog.CloseOnExec), prog.Int(0)).To(s.fd)
	} else {
		s.fd = c.Slot()
		open = c.Call(prog.SysOpenTree, prog.AtCwd, c.String(m.Source), prog.Int(openTreeClone|openTreeCloexec|m.recursive())).To(s.fd)
	}
	if m.Optional {
		s.missing = append(s.missing, open.Tolerate(enoent).OnTolerated())
	}
	if !c.o.Classic {
		c.setattr(s.fd, m.recursive(), s.flags)
	}
	return s, nil
}

func (m *Mount) recursive() int {
	if m.NonRecursive {
		return 0
	}
	return atRecursive
}

func (c *compiler) bind(m *Mount) error {
	s, opened := c.sources[m]
	if !opened {
		var err error
		if s, err = c.open(m); err != nil {
			return err
		}
	}
	c.Step("bind", m.Target)
	c.attach(s.tree, m, likeTree)
	c.Here(s.missing...)
	return nil
}

// setattr adds flags to a tree and takes it out of the propagation of mounts:
// what the host mounts later does not appear in it, writable.
func (c *compiler) setattr(fd prog.Slot, recursive int, set uint64) {
	c.changeAttr(fd, recursive, set, 0)
}

// changeAttr is setattr that can also take flags away.
func (c *compiler) changeAttr(fd prog.Slot, recursive int, set, clear uint64) {
	key := [2]uint64{set, clear}
	attr, ok := c.attrs[key]
	if !ok {
		attr = c.Words(set, clear, msPrivate, 0) // struct mount_attr
		c.attrs[key] = attr
	}
	c.Call(prog.SysMountSetattr, fd.Arg(), c.String(""), prog.Int(atEmptyPath|recursive), attr.Arg(), prog.Int(sizeofMountAttr))
}

// maxValue is how long a value can be that fsconfig(2) takes, maxData what all
// options together cannot reach in mount(2).
const (
	maxValue = 255
	maxData  = 4096
)

// option is one parameter of a new file system; no value: a flag.
type option struct{ key, value string }

// newFS makes a file system that is not attached yet. Where a value is too long
// for fsconfig(2), which paths of layers can be, it is left to mount(2).
func (c *compiler) newFS(fstype string, attrs uint64, opts ...option) tree {
	t := tree{fd: c.Slot(), source: fstype, fstype: fstype, flags: attrs, classic: c.o.Classic}
	for _, o := range opts {
		t.classic = t.classic || len(o.value) > maxValue
	}
	if t.classic {
		words := make([]string, len(opts))
		for i, o := range opts {
			words[i] = o.key
			if o.value != "" {
				words[i] += "=" + escapeComma(o.value)
			}
		}
		t.data = strings.Join(words, ",")
		return t
	}
	fs := c.Slot()
	c.Call(prog.SysFsopen, c.String(fstype), prog.Int(fsopenCloexec)).To(fs)
	for _, o := range opts {
		if o.value == "" {
			c.Call(prog.SysFsconfig, fs.Arg(), prog.Int(fsconfigSetFlag), c.String(o.key), prog.Null, prog.Int(0))
		} else {
			c.Call(prog.SysFsconfig, fs.Arg(), prog.Int(fsconfigSetString), c.String(o.key), c.String(o.value), prog.Int(0))
		}
	}
	c.Call(prog.SysFsconfig, fs.Arg(), prog.Int(fsconfigCreate), prog.Null, prog.Null, prog.Int(0))
	c.Call(prog.SysFsmount, fs.Arg(), prog.Int(fsmountCloexec), prog.Int(attrs)).To(t.fd)
	c.Close(fs)
	return t
}

func (c *compiler) tmpfs(m *Mount) {
	c.Step("tmpfs", m.Target)
	opts := []option{{"mode", strconv.FormatUint(uint64(m.perm(defaultTmpfsPerm)), 8)}}
	if m.Size != 0 {
		opts = append(opts, option{"size", strconv.FormatUint(m.Size, 10)})
	}
	c.attach(c.newFS("tmpfs", m.attrs(), opts...), m, alwaysDir)
}

func (c *compiler) overlay(m *Mount) error {
	c.Step("overlay", m.Target)
	lower := make([]string, len(m.Lower))
	for i, l := range m.Lower {
		lower[i] = escapeLayer(l)
	}
	opts := []option{{"lowerdir", strings.Join(lower, ":")}}
	if m.Upper != "" {
		opts = append(opts, option{"upperdir", escapeLayer(m.Upper)}, option{"workdir", escapeLayer(m.Work)})
	}
	// Marks as user.overlay.*, which a user namespace may write too; this also
	// switches off redirects and metacopy, which the sandboxed side could forge.
	opts = append(opts, option{"userxattr", ""})
	t := c.newFS("overlay", m.attrs(), opts...)
	if len(t.data) >= maxData {
		return &Error{m.Kind.String(), m.Target, ErrLongLayers} // the kernel would cut it off
	}
	c.attach(t, m, alwaysDir)
	return nil
}

// escapeLayer protects what separates layers in overlay's options.
func escapeLayer(p string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(p)
}

// escapeComma protects what separates options in mount(2)'s data.
func escapeComma(v string) string { return strings.ReplaceAll(v, ",", `\,`) }

// hostProc is what in a procfs is the whole host's and not a process's.
var hostProc = [...]string{
	"sys", "sysrq-trigger", "irq", "bus",
	"fs", "asound", "acpi", "scsi", "mtrr", "driver", "dynamic_debug",
}

func (c *compiler) proc(m *Mount) {
	c.Step("proc", m.Target)
	c.keep(c.newFS("proc", attrNoSuid|attrNoDev|attrNoExec), m, alwaysDir, func(proc prog.Slot) {
		if !c.o.HostRoot {
			return // the files belong to another user
		}
		for _, name := range hostProc {
			c.Step("proc", path.Join(m.Target, name))
			c.selfReadOnly(proc, name)
		}
	})
}

// selfReadOnly covers a name in dir with itself, read-only.
func (c *compiler) selfReadOnly(dir prog.Slot, name string) {
	if c.o.Classic {
		open := func() (at prog.Slot, r prog.Ref) {
			at = c.Slot()
			flags := c.Open(prog.PathOnly | prog.CloseOnExec | prog.NoFollow)
			return at, c.Call(prog.SysOpenat, dir.Arg(), c.String(name), flags, prog.Int(0)).To(at)
		}
		under, r := open()
		skip := r.Tolerate(enoent).OnTolerated()
		c.mountOn(under, "", "", msBind|msRec, "", under)
		c.Close(under)
		top, _ := open()
		c.mountOn(top, "", "", msRemount|msBind|uint64(FlagReadOnly|FlagNoSuid|FlagNoDev|FlagNoExec), "", noSource)
		c.Close(top)
		c.Here(skip)
		return
	}
	t := c.Slot()
	n := c.String(name)
	open := c.Call(prog.SysOpenTree, dir.Arg(), n, prog.Int(openTreeClone|openTreeCloexec|atRecursive|atNoFollow)).To(t)
	skip := open.Tolerate(enoent).OnTolerated()
	c.setattr(t, atRecursive, attrReadOnly|attrNoSuid|attrNoDev|attrNoExec)
	c.Call(prog.SysMoveMount, t.Arg(), c.String(""), dir.Arg(), n, prog.Int(moveFromEmpty))
	c.Close(t)
	c.Here(skip)
}

// deviceNames are the devices of the host that a sandbox gets.
var deviceNames = [...]string{"null", "zero", "full", "random", "urandom", "tty"}

func (c *compiler) dev(m *Mount) {
	c.Step("dev", m.Target)
	c.keep(c.newFS("tmpfs", attrNoSuid|attrNoDev, option{"mode", "755"}), m, alwaysDir, func(dev prog.Slot) {
		for _, name := range deviceNames {
			c.device(m, dev, name)
		}
		c.Step("dev", m.Target)
		if !c.o.Classic {
			// The nodes are the host's inodes: their modes, owners and times are not
			// the sandbox's to change. Two calls for all of them, and none for devpts,
			// which is not there yet; writing to a device is not writing to its mount.
			c.setattr(dev, atRecursive, deviceAttrs)
			c.changeAttr(dev, 0, 0, attrReadOnly)
		}
		link := func(text, name string) {
			c.Call(prog.SysSymlinkat, c.String(text), dev.Arg(), c.String(name))
		}
		link("/proc/self/fd", "fd")
		link("/proc/self/fd/0", "stdin")
		link("/proc/self/fd/1", "stdout")
		link("/proc/self/fd/2", "stderr")
		link("/proc/kcore", "core")
		link("pts/ptmx", "ptmx")
		c.Call(prog.SysMkdirat, dev.Arg(), c.String("shm"), prog.Int(shmPerm))
		c.Call(prog.SysMkdirat, dev.Arg(), c.String("pts"), prog.Int(0o755))
		c.Step("devpts", path.Join(m.Target, "pts"))
		pts := c.newFS("devpts", attrNoSuid|attrNoExec, option{"newinstance", ""}, option{"ptmxmode", "0666"}, option{"mode", "620"})
		c.attachAt(pts, dev, "pts")
	})
}

// deviceAttrs are the flags of the mounts of device nodes.
const deviceAttrs = attrReadOnly | attrNoSuid

// deviceKey names a device of one KindDev.
type deviceKey struct {
	m    *Mount
	name string
}

// openDevice clones a node of the host. A device that somebody replaced by a link
// is not what was meant.
func (c *compiler) openDevice(name string) prog.Slot {
	t := c.Slot()
	c.Call(prog.SysOpenTree, prog.AtCwd, c.String("/dev/"+name), prog.Int(openTreeClone|openTreeCloexec|atNoFollow)).To(t)
	return t
}

// device makes a node of the host appear in dir.
func (c *compiler) device(m *Mount, dir prog.Slot, name string) {
	c.Step("dev", path.Join(m.Target, name))
	n := c.String(name)
	c.Call(prog.SysMknodat, dir.Arg(), n, prog.Int(sIFREG|mountPointFilePerm), prog.Int(0))
	if c.o.Classic {
		source := "/dev/" + name
		t := tree{classic: true, source: source, flags: deviceAttrs, fd: c.Slot(), below: Below(c.o.Infos, source)[:1]}
		c.Call(prog.SysOpenat, prog.AtCwd, c.String(source), c.Open(prog.PathOnly|prog.CloseOnExec|prog.NoFollow), prog.Int(0)).To(t.fd)
		c.attachAt(t, dir, name)
		return
	}
	t, opened := c.devices[deviceKey{m, name}]
	if !opened {
		t = c.openDevice(name)
	}
	c.Call(prog.SysMoveMount, t.Arg(), c.String(""), dir.Arg(), n, prog.Int(moveFromEmpty))
	c.Close(t)
}

func (c *compiler) block(m *Mount) {
	c.Step("block", m.Target)
	rel := relative(m.Target)
	dst := c.Slot()
	// A link at the target is followed: what it leads to is what is meant. What
	// the caller may not reach, the command cannot reach either.
	how, size := c.howIn(2)
	open := c.Call(prog.SysOpenat2, c.root.Arg(), c.String(rel), how, size).To(dst)
	gone := open.Tolerate(enoent, enotdir, syscall.EACCES).OnTolerated()
	c.statMode(dst)
	isDir := c.If(c.statx+statxModeOffset&^3, sIFMT, sIFDIR)
	c.cover(dst, "f")
	done := c.Jump()
	c.Here(isDir)
	c.cover(dst, "d")
	c.Here(done)
	c.Close(dst)
	c.Here(gone)
}

// cover puts a directory or file that nobody can open over dst, read-only.
func (c *compiler) cover(dst prog.Slot, name string) {
	t := c.Slot()
	n := c.String(name)
	if c.o.Classic {
		c.Call(prog.SysOpenat, c.base.Arg(), n, c.Open(prog.PathOnly|prog.CloseOnExec|prog.NoFollow), prog.Int(0)).To(t)
		c.mountOn(dst, "", "", msBind, "", t)
		c.Close(t)
		return
	}
	c.Call(prog.SysOpenTree, c.base.Arg(), n, prog.Int(openTreeClone|openTreeCloexec|atNoFollow)).To(t)
	c.setattr(t, 0, attrReadOnly|attrNoSuid|attrNoDev|attrNoExec)
	c.Call(prog.SysMoveMount, t.Arg(), c.String(""), dst.Arg(), c.String(""), prog.Int(moveFromEmpty|moveToEmpty))
	c.Close(t)
}

func (c *compiler) remount(m *Mount) {
	c.Step("remount", m.Target)
	rel := relative(m.Target)
	dst := c.Slot()
	how, size := c.howIn(2)
	if rel == "" {
		rel = "."
	}
	open := c.Call(prog.SysOpenat2, c.root.Arg(), c.String(rel), how, size).To(dst)
	var skip []prog.Label
	if m.Optional {
		skip = append(skip, open.Tolerate(enoent).OnTolerated())
	}
	if c.o.Classic {
		// What is not said again is lost, and some of it the kernel does not let go.
		flags := c.flags[relative(m.Target)] | uint64(FlagReadOnly|FlagNoSuid|FlagNoDev)
		c.mountOn(dst, "", "", msRemount|msBind|flags, "", noSource)
	} else {
		// EINVAL: not a mount point.
		c.setattr(dst, 0, attrReadOnly|attrNoSuid|attrNoDev)
	}
	c.Close(dst)
	c.Here(skip...)
}
