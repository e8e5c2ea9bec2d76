//go:build linux

package mountprog

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/mounts"
)

// maxValue is the longest value of fsconfig(2), maxData a bound for all options of mount(2).
const (
	maxValue = 255
	maxData  = 4096
)

// option is a parameter of a new file system; without a value it is a flag.
type option struct {
	key, value string
	base       int // not 0: the value is number, in this base
	number     uint64
}

func (o *option) text() string {
	if o.base != 0 {
		return strconv.FormatUint(o.number, o.base)
	}
	return escapeComma(o.value)
}

// newFS makes a detached file system. It uses mount(2) if a value is too long for fsconfig(2), or contains a comma,
// which overlay accepts there only since Linux 6.5.
func (c *compiler) newFS(fstype string, attrs uint64, opts ...option) tree {
	t := tree{fd: c.Slot(), source: fstype, fstype: fstype, flags: attrs, classic: c.o.Classic}
	for i := range opts {
		t.classic = t.classic || len(opts[i].value) > maxValue || strings.Contains(opts[i].value, ",")
	}
	if t.classic {
		words := make([]string, len(opts))
		for i := range opts {
			words[i] = opts[i].key
			if text := opts[i].text(); text != "" {
				words[i] += "=" + text
			}
		}
		t.data = strings.Join(words, ",")
		return t
	}
	fs := c.Slot()
	c.Call(prog.SysFsopen, c.String(fstype), prog.Int(fsopenCloexec)).To(fs)
	// What mount(8) and df(1) show.
	c.Call(prog.SysFsconfig, fs.Arg(), prog.Int(fsconfigSetString), c.String("source"), c.String(fstype), prog.Int(0))
	for i := range opts {
		o := &opts[i]
		kind, value := fsconfigSetString, prog.Null
		switch {
		case o.base != 0:
			value = c.Number(o.number, o.base)
		case o.value != "":
			value = c.String(o.value)
		default:
			kind = fsconfigSetFlag
		}
		c.Call(prog.SysFsconfig, fs.Arg(), prog.Int(kind), c.String(o.key), value, prog.Int(0))
	}
	c.Call(prog.SysFsconfig, fs.Arg(), prog.Int(fsconfigCreate), prog.Null, prog.Null, prog.Int(0))
	t.made = c.Call(prog.SysFsmount, fs.Arg(), prog.Int(fsmountCloexec), prog.Int(attrs)).To(t.fd)
	t.context = fs
	c.Close(fs)
	return t
}

func (c *compiler) tmpfs(m *mounts.Mount) {
	c.Step("tmpfs", m.Target)
	var dst prog.Slot
	if m.Optional {
		var gone prog.Label
		dst, gone = c.existing(m)
		defer c.Here(gone)
	} else {
		dst = c.dirTarget(m)
	}
	mode := option{key: "mode", base: 8, number: uint64(perm(m, defaultTmpfsPerm))}
	var t tree
	if m.Size != 0 {
		t = c.newFS("tmpfs", attrs(m), mode, option{key: "size", base: 10, number: m.Size})
	} else {
		t = c.newFS("tmpfs", attrs(m), mode)
	}
	c.attach(t, m, dst)
}

func (c *compiler) overlay(m *mounts.Mount) error {
	c.Step("overlay", m.Target)
	dst := c.dirTarget(m)
	lower := make([]string, len(m.Lower))
	for i, l := range m.Lower {
		lower[i] = escapeLayer(l)
	}
	known := m.Same != (mounts.FileID{})
	if known {
		lower[len(lower)-1] = c.takeLowest()
	}
	if fronted(m) {
		lower = append([]string{c.front(m)}, lower...)
	}
	if m.Over { // in the new root, which lies in base
		lower = append(lower, escapeLayer(path.Join("r", relative(m.Target))))
		c.Call(prog.SysFchdir, c.base.Arg())
	}
	opts := []option{{key: "lowerdir", value: strings.Join(lower, ":")}}
	switch {
	case m.Temporary:
		// Relative to the working directory, which nothing else depends on.
		n := strconv.Itoa(c.hidden)
		c.hidden++
		for _, name := range [...]string{"u" + n, "w" + n} {
			c.Call(prog.SysMkdirat, c.base.Arg(), c.String(name), prog.Int(0o755))
		}
		c.Call(prog.SysFchdir, c.base.Arg())
		opts = append(opts, option{key: "upperdir", value: "u" + n}, option{key: "workdir", value: "w" + n})
	case m.Upper != "":
		opts = append(opts, option{key: "upperdir", value: escapeLayer(m.Upper)}, option{key: "workdir", value: escapeLayer(m.Work)})
	}
	if m.Volatile {
		opts = append(opts, option{key: "volatile"})
	}
	// user.overlay.* marks, which a user namespace may write. This also disables redirects and metacopy, which the
	// command could forge.
	opts = append(opts, option{key: "userxattr", value: ""})
	attrs := attrs(m)
	if c.o.Bubblewrap {
		attrs &^= attrReadOnly // without an upper directory it is anyway
	}
	t := c.newFS("overlay", attrs, opts...)
	if len(t.data) >= maxData {
		return &mounts.Error{Op: m.Kind.String(), Path: m.Target, Err: mounts.ErrLongLayers} // the kernel would cut it off
	}
	var use func(root prog.Slot)
	if (m.Upper != "" || m.Temporary) && attrs&attrReadOnly == 0 && !c.o.Bubblewrap {
		use = c.writable
	}
	c.keep(t, m, dst, use)
	if known {
		c.Call(prog.SysClose, prog.Int(c.o.ScratchFd+2))
	}
	return nil
}

// writable makes it an error if the kernel mounted an overlay read-only because it could not make its work directory,
// for example on a full disk: what the command wrote would be refused, and nothing would say why.
func (c *compiler) writable(root prog.Slot) {
	c.Call(prog.SysFaccessat2, root.Arg(), c.String("."), prog.Int(writeOK), prog.Int(atEAccess)).
		Tolerate(syscall.EACCES, syscall.EPERM, syscall.ENOSYS)
}

// escapeLayer escapes separators of layers in overlay's options.
func escapeLayer(p string) string {
	return strings.ReplaceAll(strings.ReplaceAll(p, `\`, `\\`), `:`, `\:`)
}

func escapeComma(v string) string { return strings.ReplaceAll(v, ",", `\,`) }

// hostProc lists what in a procfs belongs to the whole host; bubblewrap covers the first bubblewrapProc of it.
var hostProc = [...]string{
	"sys", "sysrq-trigger", "irq", "bus",
	"fs", "asound", "acpi", "scsi", "mtrr", "driver", "dynamic_debug",
}

const bubblewrapProc = 4

func (c *compiler) proc(m *mounts.Mount) {
	c.Step("proc", m.Target)
	dst := c.dirTarget(m)
	var t tree
	if m.Source != "" {
		t = c.hostTree(m.Source, attrNoSuid|attrNoDev)
	} else {
		t = c.newProc()
	}
	c.keep(t, m, dst, func(proc prog.Slot) {
		if !c.o.HostRoot {
			return // the files belong to another user
		}
		names := hostProc[:]
		if c.o.Bubblewrap {
			names = names[:bubblewrapProc]
		}
		for _, name := range names {
			c.StepIn("proc", m.Target, name)
			var locked prog.Label
			if c.o.Bubblewrap {
				locked = c.Call(prog.SysFaccessat2, proc.Arg(), c.String(name), prog.Int(writeOK), prog.Int(atEAccess)).
					Tolerate(syscall.EACCES, syscall.EROFS, enoent).OnTolerated()
			}
			flags := uint64(attrReadOnly | attrNoSuid | attrNoDev | attrNoExec)
			if c.o.Bubblewrap && m.Source != "" {
				flags &^= attrNoExec
			}
			c.selfReadOnly(proc, name, flags)
			c.Here(locked)
		}
	})
}

// newProc makes a procfs, or clones the host's, see Options.HostProc.
func (c *compiler) newProc() tree {
	const attrs = attrNoSuid | attrNoDev | attrNoExec
	switch {
	case c.o.HostProc == nil:
		return c.newFS("proc", attrs)
	case c.o.Classic:
		if !slices.ContainsFunc(c.o.Infos, mounts.Info.MasksProc) {
			return c.newFS("proc", attrs)
		}
		c.o.HostProc()
		return c.hostTree("/proc", attrs|attrReadOnly)
	}
	t := c.newFS("proc", attrs)
	refused := t.made.Tolerate(syscall.EPERM).OnTolerated()
	made := c.Jump()
	c.Here(refused)
	c.Call(prog.SysClose, t.context.Arg())
	c.cloneTree(t.fd, "/proc", attrs|attrReadOnly)
	c.o.HostProc()
	c.Here(made)
	return t
}

func (c *compiler) hostTree(source string, flags uint64) tree {
	t := tree{fd: c.Slot(), source: source, flags: flags, classic: c.o.Classic}
	if c.o.Classic {
		t.below = mounts.Below(c.o.Infos, source)
		c.Call(prog.SysOpenat, prog.AtCwd, c.String(source), c.Open(prog.PathOnly|prog.CloseOnExec), prog.Int(0)).To(t.fd)
		return t
	}
	c.cloneTree(t.fd, source, flags)
	return t
}

func (c *compiler) cloneTree(to prog.Slot, source string, flags uint64) {
	c.Call(prog.SysOpenTree, prog.AtCwd, c.String(source), prog.Int(openTreeClone|openTreeCloexec|atRecursive)).To(to)
	c.setattr(to, atRecursive, flags)
}

// selfReadOnly binds a name in dir onto itself, read-only.
func (c *compiler) selfReadOnly(dir prog.Slot, name string, flags uint64) {
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
		c.mountOn(top, "", "", msRemount|msBind|mountFlags(flags), "", noSource)
		c.Close(top)
		c.Here(skip)
		return
	}
	t := c.Slot()
	n := c.String(name)
	open := c.Call(prog.SysOpenTree, dir.Arg(), n, prog.Int(openTreeClone|openTreeCloexec|atRecursive|atNoFollow)).To(t)
	skip := open.Tolerate(enoent).OnTolerated()
	c.setattr(t, atRecursive, flags)
	c.Call(prog.SysMoveMount, t.Arg(), c.String(""), dir.Arg(), n, prog.Int(moveFromEmpty))
	c.Close(t)
	c.Here(skip)
}

func (c *compiler) dev(m *mounts.Mount) {
	c.Step("dev", m.Target)
	dst := c.dirTarget(m)
	c.keep(c.newFS("tmpfs", attrNoSuid|attrNoDev, option{key: "mode", value: "755"}), m, dst, func(dev prog.Slot) {
		for i := range prog.HostDevices {
			c.device(m, dev, &prog.HostDevices[i])
		}
		c.Step("dev", m.Target)
		switch {
		case c.o.Classic:
		case c.o.Bubblewrap:
			c.setattr(dev, atRecursive, attrNoSuid)
		default:
			// The nodes are the host's inodes, whose modes, owners and times the sandbox must not change.
			// Two calls cover all of them, but not devpts, which is not there yet. A read-only mount does
			// not prevent writes to a device.
			c.setattr(dev, atRecursive, deviceAttrs)
			c.changeAttr(dev, 0, 0, attrReadOnly)
		}
		for _, l := range deviceLinks {
			c.Call(prog.SysSymlinkat, c.String(l.text), dev.Arg(), c.String(l.name))
		}
		c.Call(prog.SysMkdirat, dev.Arg(), c.String("shm"), prog.Int(perm(m, shmPerm)))
		c.Call(prog.SysMkdirat, dev.Arg(), c.String("pts"), prog.Int(0o755))
		c.StepIn("devpts", m.Target, "pts")
		options := []option{{key: "newinstance", value: ""}, {key: "ptmxmode", value: "0666"}, {key: "mode", value: "620"}}
		if c.o.Terminals {
			options = append(options, option{key: "gid", value: "5"})
		}
		pts := c.newFS("devpts", attrNoSuid|attrNoExec, options...)
		c.attachAt(pts, dev, "pts")
		if m.Source != "" {
			c.console(m, dev)
		}
	})
}

var deviceLinks = [...]struct{ text, name string }{
	{"/proc/self/fd", "fd"}, {"/proc/self/fd/0", "stdin"}, {"/proc/self/fd/1", "stdout"}, {"/proc/self/fd/2", "stderr"},
	{"/proc/kcore", "core"}, {"pts/ptmx", "ptmx"},
}

// console shows the caller's terminal as the console.
func (c *compiler) console(m *mounts.Mount, dir prog.Slot) {
	c.StepIn("dev", m.Target, "console")
	n := c.String("console")
	c.Call(prog.SysMknodat, dir.Arg(), n, prog.Int(sIFREG|mountPointFilePerm), prog.Int(0))
	t := tree{source: m.Source, flags: c.consoleAttrs(), classic: c.o.Classic}
	switch {
	case c.o.Classic:
		t.fd = c.Slot()
		t.below = mounts.Below(c.o.Infos, m.Source)[:1]
		c.Call(prog.SysOpenat, prog.AtCwd, c.String(m.Source), c.Open(prog.PathOnly|prog.CloseOnExec|prog.NoFollow), prog.Int(0)).To(t.fd)
		c.mustBe(t.fd, m.Same)
	case c.devicesOpen:
		t.fd = c.consoleFd
	default:
		t.fd = c.Slot()
		c.openConsole(m, t.fd)
	}
	c.attachAt(t, dir, "console")
}

func (c *compiler) openConsole(m *mounts.Mount, to prog.Slot) {
	c.StepIn("dev", m.Target, "console")
	c.Call(prog.SysOpenTree, prog.AtCwd, c.String(m.Source), prog.Int(openTreeClone|openTreeCloexec|atNoFollow)).To(to)
	c.mustBe(to, m.Same)
	c.setattr(to, 0, c.consoleAttrs())
}

// consoleAttrs are deviceAttrs, except for bubblewrap's command line, whose console node can be changed.
func (c *compiler) consoleAttrs() uint64 {
	if c.o.Bubblewrap {
		return attrNoSuid
	}
	return deviceAttrs
}

const deviceAttrs = attrReadOnly | attrNoSuid

// openDevice clones a node of the host if it is the device of that name.
func (c *compiler) openDevice(name *prog.HostDevice, to prog.Slot) {
	c.Call(prog.SysOpenTree, prog.AtCwd, c.Concat("/dev/", name.Name), prog.Int(openTreeClone|openTreeCloexec|atNoFollow)).To(to)
	c.Call(prog.Device, to.Arg(), prog.Int(name.Major), prog.Int(name.Minor))
}

// device shows a node of the host in dir.
func (c *compiler) device(m *mounts.Mount, dir prog.Slot, name *prog.HostDevice) {
	c.StepIn("dev", m.Target, name.Name)
	n := c.String(name.Name)
	c.Call(prog.SysMknodat, dir.Arg(), n, prog.Int(sIFREG|mountPointFilePerm), prog.Int(0))
	if c.o.Classic {
		source := "/dev/" + name.Name
		t := tree{classic: true, source: source, flags: deviceAttrs, fd: c.Slot(), below: mounts.Below(c.o.Infos, source)[:1]}
		if c.o.Bubblewrap {
			t.flags = attrNoSuid
		}
		c.Call(prog.SysOpenat, prog.AtCwd, c.String(source), c.Open(prog.PathOnly|prog.CloseOnExec|prog.NoFollow), prog.Int(0)).To(t.fd)
		c.Call(prog.Device, t.fd.Arg(), prog.Int(name.Major), prog.Int(name.Minor))
		c.attachAt(t, dir, name.Name)
		return
	}
	var t prog.Slot
	if c.devicesOpen {
		t = c.devices + prog.Slot(c.usedOfDevs)
		c.usedOfDevs++
	} else {
		t = c.Slot()
		c.openDevice(name, t)
	}
	c.Call(prog.SysMoveMount, t.Arg(), c.String(""), dir.Arg(), n, prog.Int(moveFromEmpty))
	c.Close(t)
}

// data mounts a file with the content of m over the target. The file has no name once the set-up is done.
func (c *compiler) data(m *mounts.Mount) {
	c.Step("data", m.Target)
	c.Part(prog.PartContent)
	name := c.String("t" + strconv.Itoa(c.hidden))
	c.hidden++
	f := c.Slot()
	c.Call(prog.SysOpenat, c.base.Arg(), name, c.Open(prog.WriteOnly|prog.Create|prog.Exclusive|prog.NoFollow|prog.CloseOnExec),
		prog.Int(perm(m, defaultDataPerm))).To(f)
	c.write(f, m.Data)
	c.Close(f)
	c.Step("data", m.Target)
	t := tree{fd: c.Slot(), flags: attrs(m), classic: c.o.Classic}
	if c.o.Classic {
		t.below = []mounts.Info{{}}
		c.Call(prog.SysOpenat, c.base.Arg(), name, c.Open(prog.PathOnly|prog.CloseOnExec|prog.NoFollow), prog.Int(0)).To(t.fd)
	} else {
		c.Call(prog.SysOpenTree, c.base.Arg(), name, prog.Int(openTreeClone|openTreeCloexec|atNoFollow)).To(t.fd)
		c.setattr(t.fd, 0, t.flags)
	}
	c.keep(t, m, c.likeTarget(t, m), func(prog.Slot) { c.Call(prog.SysUnlinkat, c.base.Arg(), name, prog.Int(0)) })
}

func (c *compiler) block(m *mounts.Mount) {
	c.pin(m)
	c.Step("block", m.Target)
	dst, gone := c.existing(m)
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

// existing looks up a target; for an Optional one that is missing, it continues at gone.
func (c *compiler) existing(m *mounts.Mount) (dst prog.Slot, gone prog.Label) {
	dst = c.Slot()
	if c.footing().base != "" {
		// What the caller may not reach must be covered too: the command could change its mode.
		gone = c.open(m.Target, dst, m.Optional)
	} else {
		// A link at the target is followed: its target is what is meant. What the caller may not reach, the
		// command cannot reach either.
		how, size := c.howIn(2)
		open := c.Call(prog.SysOpenat2, c.root.Arg(), c.String(relative(m.Target)), how, size).To(dst)
		if m.Optional {
			open.Tolerate(enoent, enotdir)
		}
		gone = open.Tolerate(syscall.EACCES).OnTolerated()
	}
	return dst, gone
}

// cover mounts a directory or file that nobody can open over dst.
func (c *compiler) cover(dst prog.Slot, name string) {
	t := c.Slot()
	if c.o.Masks != 0 {
		name = path.Join(maskDir, name)
	}
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
