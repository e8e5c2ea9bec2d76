package plan

import (
	"path"
	"slices"

	"github.com/nsrun/nsrun/internal/pathrule"
	"github.com/nsrun/nsrun/internal/paths"
	"github.com/nsrun/nsrun/mounts"
)

// A Cause is the part of a policy that decides about a path. The zero Cause refuses nothing.
type Cause uint8

const (
	NoCause        Cause = iota
	HostCause            // the host's files are read-only
	ShownCause           // a rule or a folder makes it read-only
	GitCause             // git executes or obeys it
	SecretCause          // it is a place of secrets
	SocketCause          // it is a socket of the host
	BlockedCause         // a rule or a folder hides it
	PrivateCause         // commands have something of their own there, instead of the host's
	StrictCause          // nothing is shown that is not listed
	NetworkCause         // it is made for the network that the command has
	OwnCause             // it is nsrun's
	ProtectedCause       // changes of it are held back, or refused where it would be written to in place
	PrivilegeCause       // it takes root's privileges, which root does not have in a sandbox
	NobodyCause          // it takes root's id, which root does not have in a sandbox with ids of its own
)

// A Writing says what happens to writes to a path.
type Writing uint8

// The zero Writing: the path cannot be written to.
const (
	NoWriting Writing = iota
	Apart             // it is kept apart, in a session
	InPlace           // it is on the host at once
	Temporary         // it is gone with the sandbox
	InHome            // it is kept in the home layer of the project
)

// OnHost is what the host has at a path. The zero OnHost is nothing at all.
type OnHost struct {
	Exists, Socket bool
	Nearest        string // the path itself, or the nearest of its parents that is there; empty: the path itself
	// NoRead and NoWrite say that permissions refuse it without a sandbox too: the caller's, or with Root those of
	// a root without privileges. Closed, with Root, says that others may not read it.
	NoRead, NoWrite, Root, Closed bool
	// OwnerNoRead and OwnerNoWrite, with Root, are those of a root with all rights to files of user and group 0.
	OwnerNoRead, OwnerNoWrite bool
	Fixed                     bool   // with Root: no user can write to it, because the file system is read-only
	Device                    string // the value of --device that shows it; empty: it is no device that commands can have
}

// A Flag is a flag of nsrun run and the path that is its value. OwnIDsWith begins the names of two flags, of which the
// path belongs to the second one.
type Flag struct{ Name, Path string }

// OwnIDsWith is the flag that gives root's command root's rights, before another one.
const OwnIDsWith = "--own-ids "

// A Place says what the policy lets a command do with one path.
type Place struct {
	Path    string
	At      string // what the Cause is about: Path, or one of its parents
	Cause   Cause
	Absent  bool // nothing is to be seen at At
	Read    bool // what the host has there can be read
	Connect bool // it is a socket of the host, and can be connected to
	Writing Writing
	// ReadWith, WriteWith and ConnectWith are the flags that would allow it. Zero: it is allowed, does not apply,
	// or no flag allows it.
	ReadWith, WriteWith, ConnectWith Flag
}

// Gone is a path at which nothing is shown, even if it exists on the host.
type Gone struct {
	Path string
	Own  bool // it is nsrun's own; else it is a place of secrets
}

// Why returns what a command can do with a path without symbolic links.
func (s *Sandbox) Why(name string, on OnHost) Place {
	p := Place{Path: name, At: "/"}
	at, readOnly := s.topmost(name)
	if at < 0 {
		return p
	}
	m := &s.Mounts[at]
	p.At = m.Target
	switch m.Kind {
	case mounts.KindBlock:
		p.Cause = s.hiddenBy(at, on)
	case mounts.KindTmpfs:
		if Hole(m) {
			p.Cause = s.hiddenBy(at, on)
			break
		}
		if s.private(&p, m, readOnly); s.Layers[at] == SecretLayer {
			p.Cause = SecretCause
		}
	case mounts.KindProc, mounts.KindData:
		p.Cause = PrivateCause
		switch s.Layers[at] {
		case NetworkLayer:
			p.Cause, p.Read = NetworkCause, true
		case SecretLayer: // what of it is no secret
			p.Cause = SecretCause
		}
	case mounts.KindDev, mounts.KindMqueue:
		if s.private(&p, m, readOnly); m.Kind == mounts.KindDev && slices.Contains(hostDevices, name) {
			p.Cause, p.Read, p.Writing = NoCause, true, InPlace
		}
	default:
		s.shown(&p, m, s.Layers[at])
	}
	if !on.Exists && p.Cause != BlockedCause && pathrule.Verdict(s.Rules, name) == Block {
		p.Cause, p.At, p.Read = BlockedCause, name, false // it will be hidden, or is
	}
	if s.Owners && !s.OwnIDs && on.Root { // the kernel gives it these rights wherever the sandbox has the ids
		on.NoRead, on.NoWrite = on.OwnerNoRead, on.OwnerNoWrite
	}
	switch {
	case !on.Root || !p.Read || (s.OwnIDs || s.Owners) && s.Owned(at):
	case s.OwnIDs && on.Closed:
		p.Cause, p.At, p.Read = NobodyCause, name, false
		on.NoRead, on.NoWrite = false, false // with a rule it has root's rights there
	case s.OwnIDs:
	case on.NoRead || on.NoWrite && p.Writing != NoWriting:
		p.Cause, p.At, p.Read = PrivilegeCause, name, !on.NoRead
		var with Flag
		if s.Owned(at) {
			with.Name = "--own-ids"
		}
		switch p.ReadWith = with; {
		case !on.NoRead:
			p.ReadWith = Flag{}
		case with.Name == "" && s.opens(&p, name):
			p.ReadWith = Flag{OwnIDsWith + "--ro", name}
		}
		if on.NoWrite {
			if p.Writing != NoWriting {
				p.WriteWith = with
			}
			p.Writing = NoWriting
		}
		return p
	}
	s.flags(&p, on)
	return p
}

// Links reports whether the sandbox has a symbolic link of its own at a path, as the host has one.
func (s *Sandbox) Links(name string) bool {
	return slices.ContainsFunc(s.Mounts, func(m mounts.Mount) bool { return m.Kind == mounts.KindSymlink && m.Target == name })
}

// HomeLayers are the home directories that have a layer.
func (s *Sandbox) HomeLayers() (list []string) {
	for i, m := range s.Mounts {
		if s.Layers[i] == PlaygroundLayer && m.Kind == mounts.KindOverlay && !m.ReadOnly {
			list = append(list, m.Target)
		}
	}
	return list
}

// private is about what the sandbox has of its own.
func (*Sandbox) private(p *Place, m *mounts.Mount, readOnly bool) {
	p.Cause, p.Writing = PrivateCause, Temporary
	switch {
	case readOnly && m.Target == "/":
		p.Cause, p.Writing = StrictCause, NoWriting
	case readOnly:
		p.Cause, p.Writing = HostCause, NoWriting // a home directory that is mirrored
	}
}

// topmost is the index of the mount that a path lies in, or negative, and whether a later step made it read-only.
func (s *Sandbox) topmost(name string) (at int, readOnly bool) {
	at = -1
	for i := range s.Mounts {
		m := &s.Mounts[i]
		switch m.Kind {
		case mounts.KindBind, mounts.KindTmpfs, mounts.KindProc, mounts.KindDev, mounts.KindMqueue, mounts.KindOverlay, mounts.KindBlock,
			mounts.KindData:
			if paths.Inside(name, m.Target) {
				at, readOnly = i, m.ReadOnly
			}
		case mounts.KindRemount:
			readOnly = readOnly || at >= 0 && s.Mounts[at].Target == m.Target
		}
	}
	return at, readOnly
}

// hiddenBy returns why something is hidden. What rules name exists; the other hidden paths may not.
func (s *Sandbox) hiddenBy(at int, on OnHost) Cause {
	optional := s.Mounts[at].Optional && s.Layers[at] != BlockedLayer && pathrule.Verdict(s.Rules, s.Mounts[at].Target) != Block
	switch layer := s.Layers[at]; {
	case layer == OwnLayer:
		return OwnCause
	case layer == SocketLayer, optional && on.Socket:
		return SocketCause
	case optional:
		return SecretCause
	}
	return BlockedCause
}

// shown is about what can be seen.
func (s *Sandbox) shown(p *Place, m *mounts.Mount, layer Layer) {
	p.Read = true
	switch {
	case layer == UnixLayer:
		p.Connect = true
	case !m.ReadOnly && m.Kind == mounts.KindOverlay && m.Temporary, !m.ReadOnly && layer == CacheLayer:
		p.Writing = Temporary
	case !m.ReadOnly && layer == SessionLayer:
		p.Writing = Apart
	case !m.ReadOnly && layer == PlaygroundLayer && m.Kind == mounts.KindOverlay:
		p.Writing = InHome
	case !m.ReadOnly:
		p.Writing = InPlace
	case slices.Contains(s.Guarded, m.Target):
		p.Cause = GitCause
	case layer == HostLayer, layer == NetworkLayer:
		p.Cause = HostCause
	case layer == PlaygroundLayer:
		p.Cause = HostCause
	default:
		p.Cause = ShownCause
	}
	if (p.Writing == Apart || p.Cause == ShownCause) && s.protects(p.Path) {
		p.Cause, p.At = ProtectedCause, p.Path
	}
	if m.Kind == mounts.KindOverlay && (layer == PlaygroundLayer || layer == CacheLayer) {
		s.notShown(p, m)
	}
}

func (s *Sandbox) protects(name string) bool {
	return slices.ContainsFunc(s.Rules, func(r pathrule.Rule) bool { return r.Access == Protect && r.Pattern.Covers(name) })
}

// notShown is about what an overlay does not show.
func (s *Sandbox) notShown(p *Place, m *mounts.Mount) {
	names := slices.Clip(m.Hide)
	for _, t := range m.Texts {
		names = append(names, t.Path)
	}
	for i := range s.Mounts {
		if below := &s.Mounts[i]; m.Over && below.Kind == mounts.KindOverlay && below.Target == m.Target {
			names = slices.Concat(names, below.Hide)
			for _, t := range below.Texts {
				names = append(names, t.Path)
			}
		}
	}
	for _, name := range names {
		if hidden := path.Join(m.Target, name); paths.Inside(p.Path, hidden) {
			p.Cause, p.At, p.Absent, p.Read = SecretCause, hidden, true, false
			if slices.Contains(s.Absent, Gone{hidden, true}) {
				p.Cause = OwnCause
			}
		}
	}
}

// flags finds the flags that would change a Place.
func (s *Sandbox) flags(p *Place, on OnHost) {
	if on.Socket {
		if !p.Connect && p.Cause != OwnCause {
			p.ConnectWith = Flag{"--allow-unix", p.Path}
		}
		return
	}
	if on.Device != "" && p.Cause == PrivateCause && p.At == "/dev" && !slices.Contains(ownDevices, p.Path) && !on.NoRead {
		p.ReadWith = Flag{"--device", on.Device}
		return
	}
	from, to := p.Path, p.Path
	if on.Exists && !p.Read && !on.NoRead && s.opens(p, from) {
		p.ReadWith = Flag{"--ro", from}
	}
	switch {
	case p.Cause == GitCause:
		to = p.At // git replaces its files
	case on.Nearest != "":
		to = on.Nearest
	}
	if p.Writing == NoWriting && s.opens(p, to) && !s.closes(to) {
		switch {
		case !on.NoWrite:
			p.WriteWith = Flag{"--rw", to}
		case on.Root && !on.Fixed && s.OwnIDs: // it has root's rights where a rule says so
			p.WriteWith = Flag{"--rw", to}
		case on.Root && !on.Fixed: // it has none if something is written in place
			p.WriteWith = Flag{OwnIDsWith + "--rw", to}
		}
	}
}

// hostDevices are the host's own in each /dev of a sandbox.
var hostDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// ownDevices are those that every /dev of a sandbox has, but for that of the preset strict.
var ownDevices = append(slices.Clip(hostDevices), "/dev/ptmx", "/dev/console")

// kernels are file systems of the kernel, for which rules have no effect, and sharedMemory is a directory of files in
// one.
var kernels = []string{"/proc", "/sys", "/dev"}

const sharedMemory = "/dev/shm"

// opens reports whether a rule can show a path.
func (s *Sandbox) opens(p *Place, name string) bool {
	return name != "/" && p.Cause != OwnCause && p.Cause != NetworkCause &&
		(!paths.InAny(name, kernels) || name != sharedMemory && paths.Inside(name, sharedMemory))
}

// Opening returns the flag that lets a command write to a path in place. There is none for paths that no rule can open,
// nor for a directory that contains a folder in which commands work.
func (s *Sandbox) Opening(name string) (Flag, bool) {
	p := Place{Cause: PrivateCause}
	if !s.opens(&p, name) || s.closes(name) || paths.Inside(s.Dir, name) {
		return Flag{}, false
	}
	return Flag{"--rw", name}, true
}

// closes reports whether a path cannot be writable, because a directory of nsrun's is in it, or the path is in one.
func (s *Sandbox) closes(name string) bool {
	return slices.ContainsFunc(s.Closed, func(own Own) bool { return own.keeps(name) || paths.Inside(name, own.Dir) })
}
