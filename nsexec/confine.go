//go:build linux

package nsexec

import (
	"errors"
	"path"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/confine"
	"github.com/nsrun/nsrun/internal/mountprog"
	"github.com/nsrun/nsrun/internal/prog"
	"github.com/nsrun/nsrun/mounts"
)

// A command without namespaces: see sandbox.Confinement. There are two Landlock domains. The command's parent, the
// reaper, enters the first one. It cannot send signals out of that domain, so it can kill everything in it at once. The
// command enters a second domain inside the first, with the rules about files; so it cannot signal or trace the reaper.

var errConfinement = errors.New("a command without namespaces needs Share All, and neither Mounts, Layers, Background nor AsPID1")

const (
	landlockPathBeneath = 1 // LANDLOCK_RULE_PATH_BENEATH
	landlockScopeSignal = unix.LANDLOCK_SCOPE_SIGNAL
	landlockAttrSize    = 24 // of struct landlock_ruleset_attr with scopes
)

// What an Access lets a command do with a file, and with a directory.
const (
	fileRead   = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	fileWrite  = fileRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	fileDevice = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	dirRead  = fileRead | unix.LANDLOCK_ACCESS_FS_READ_DIR
	dirWrite = dirRead | fileWrite | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER

	// handled is all that is refused without a rule.
	handled = dirWrite | fileDevice | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
)

var fileRights = [...]uint64{confine.Read: fileRead, confine.Write: fileWrite, confine.Device: fileDevice}

var dirRights = [...]uint64{confine.Read: dirRead, confine.Write: dirWrite, confine.Device: fileDevice}

// rulesetPath is the path in errors about the rules as a whole.
const rulesetPath = "/"

// checkConfinement returns an error if a command without namespaces asks for something that it cannot have.
func (c *Cmd) checkConfinement() error {
	if c.opt.Confinement == nil || c.Share == All && len(c.Mounts)+len(c.Layers) == 0 && !c.Background && c.forks() && !c.opt.Bubblewrap {
		return nil
	}
	return &Error{Op: "start", Path: c.Path, Err: errConfinement}
}

// ruleAttr is a struct landlock_path_beneath_attr that allows some rights.
type ruleAttr struct {
	rights uint64
	at     prog.Ptr
}

// confining makes the rules for files in a process that is to run a command.
type confining struct {
	b     *prog.Builder
	rules prog.Slot
	attrs []ruleAttr // few; no map, which package prerun could not have
}

// prepareConfinement adds the rules for the command, and has this process enter the domain around it.
func (c *Cmd) prepareConfinement(b *prog.Builder, status int) (rules prog.Slot) {
	b.Step("landlock", rulesetPath)
	r := confining{b: b, rules: b.Slot()}
	net := uint64(0)
	if c.opt.Confinement.NoConnect {
		net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	scopes := uint64(landlockScopeSignal)
	if c.HideAbstract {
		scopes |= unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	r.create(r.rules, handled, net, scopes)
	r.node(&c.opt.Confinement.Files, prog.AtCwd, "/")
	b.Step("landlock", rulesetPath)
	// Each domain refuses to move and link files into other directories, unless a rule of it allows that.
	around := b.Slot()
	r.create(around, unix.LANDLOCK_ACCESS_FS_REFER, 0, landlockScopeSignal)
	root := b.Slot()
	b.Call(prog.SysOpenat, prog.AtCwd, b.String("/"), b.Open(prog.PathOnly|prog.CloseOnExec), prog.Int(0)).To(root)
	r.rule(around, root, unix.LANDLOCK_ACCESS_FS_REFER)
	b.Close(root)
	b.Call(prog.SysLandlockRestrict, around.Arg(), prog.Int(0))
	b.Close(around)
	b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_CHILD_SUBREAPER), prog.Int(1))
	// From here on this process ends everything itself when its parent has ended.
	endWithParent(b, status, prog.RequestEnd)
	return r.rules
}

// enterConfinement adds what the command's own process does.
func (c *Cmd) enterConfinement(b *prog.Builder, rules prog.Slot) {
	b.Step("landlock", rulesetPath)
	b.Call(prog.SysPrctl, prog.Int(unix.PR_SET_PDEATHSIG), prog.Int(unix.SIGKILL))
	b.Call(prog.SysLandlockRestrict, rules.Arg(), prog.Int(0))
	b.Close(rules)
	if c.opt.Confinement.Files.Access != confine.None {
		return
	}
	// The kernel looks for rules up to the root of the mounts. This process's root may lie below that (chroot(2)),
	// in a directory that also appears below it: a rule for that directory would apply to everything.
	refused := b.Call(prog.SysOpenat, prog.AtCwd, b.String("/"), b.Open(prog.Directory|prog.CloseOnExec), prog.Int(0)).Tolerate(syscall.EACCES).OnTolerated()
	b.Fail(syscall.EXDEV)
	b.Here(refused)
}

func (r *confining) create(s prog.Slot, files, net, scopes uint64) {
	attr := r.b.Words(files, net, scopes)
	r.b.Call(prog.SysLandlockCreate, attr.Arg(), prog.Int(landlockAttrSize), prog.Int(0)).To(s)
}

// gone are the errors of opening something that does not exist any more, or was replaced: then it is not allowed.
var gone = [...]syscall.Errno{syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP, syscall.EACCES, syscall.EPERM, syscall.ENXIO, syscall.ESTALE}

// node adds the rules for n, which is in the directory with descriptor dir, and at that path.
func (r *confining) node(n *confine.Node, dir prog.Arg, at string) {
	b, needed := r.b, n.Needed()
	if needed {
		b.Step("landlock", at)
	}
	fd := b.Slot()
	open := b.Call(prog.SysOpenat, dir, b.String(n.Name), b.Open(prog.PathOnly|prog.NoFollow|prog.CloseOnExec), prog.Int(0)).To(fd)
	var missing prog.Label
	if !needed {
		missing = open.Tolerate(gone[:]...).OnTolerated()
	}
	if n.Same != (mounts.FileID{}) {
		mountprog.MustBe(b, fd, n.Same, b.Zero(mountprog.StatxSize))
	}
	if n.Access != confine.None {
		r.allow(fd, n, needed)
	}
	for i := range n.Nodes {
		r.node(&n.Nodes[i], fd.Arg(), path.Join(at, n.Nodes[i].Name))
	}
	b.Close(fd)
	b.Here(missing)
}

// allow adds the rule for the file of a descriptor. The kernel returns EINVAL if a file would get the rights of a
// directory.
func (r *confining) allow(fd prog.Slot, n *confine.Node, needed bool) {
	var done prog.Label
	if !n.File {
		add := r.rule(r.rules, fd, dirRights[n.Access])
		if !needed {
			add.Tolerate(syscall.EBADFD)
		}
		done = add.Tolerate(syscall.EINVAL).OnSuccess()
	}
	add := r.rule(r.rules, fd, fileRights[n.Access])
	if !needed {
		add.Tolerate(syscall.EINVAL, syscall.EBADFD)
	}
	r.b.Here(done)
}

func (r *confining) rule(rules, fd prog.Slot, rights uint64) prog.Ref {
	b := r.b
	i := slices.IndexFunc(r.attrs, func(a ruleAttr) bool { return a.rights == rights })
	if i < 0 {
		i = len(r.attrs)
		r.attrs = append(r.attrs, ruleAttr{rights, b.Words(rights, 0)})
	}
	attr := r.attrs[i].at
	b.Call(prog.Store, (attr + 8).Arg(), fd.Arg())
	return b.Call(prog.SysLandlockRule, rules.Arg(), prog.Int(landlockPathBeneath), attr.Arg(), prog.Int(0))
}
