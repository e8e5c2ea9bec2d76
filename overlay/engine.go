//go:build linux

package overlay

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/sys"
)

// An Engine is a way to keep what is written apart from the project. The zero Engine
// is none: one is chosen.
type Engine uint8

// The engines, the one that is preferred first.
const (
	EngineOverlay Engine = iota + 1 // an overlay with its upper directory in the session's
	EngineTmpfs                     // an overlay with its upper directory on a tmpfs, stored when the command has ended
	EngineCopy                      // a copy of the project, compared when the command has ended
)

var engineNames = [...]string{EngineOverlay: "overlay", EngineTmpfs: "tmpfs", EngineCopy: "copy"}

// String returns "overlay", "tmpfs" or "copy".
func (e Engine) String() string {
	if e == 0 || int(e) >= len(engineNames) {
		return "engine(" + strconv.Itoa(int(e)) + ")"
	}
	return engineNames[e]
}

// MarshalText returns what String does, so that JSON holds the name; of zero it is empty.
func (e Engine) MarshalText() ([]byte, error) {
	if e == 0 {
		return nil, nil
	}
	return []byte(e.String()), nil
}

// UnmarshalText reads the name of an engine, or nothing.
func (e *Engine) UnmarshalText(text []byte) error {
	for i, name := range engineNames {
		if name == string(text) {
			*e = Engine(i)
			return nil
		}
	}
	return fmt.Errorf("no such engine: %q", text)
}

// Types of file systems as statfs(2) tells them, beside those that package unix has.
const (
	magicFAT      = 0x4d44
	magicExFAT    = 0x2011bab0
	magicNTFS     = 0x5346544e
	magicNTFS3    = 0x7366746e
	magic9P       = 0x01021997
	magicFUSE     = 0x65735546
	magicCIFS     = 0xff534d42
	magicSMB2     = 0xfe534d42
	magicCeph     = 0x00c36400
	magicEcryptfs = 0xf15f
	magicF2FS     = 0xf2f52010
	magicBcachefs = 0xca451a4e
)

// fsType returns the type of the file system that h is on.
func fsType(h *handle) (uint32, error) {
	var st unix.Statfs_t
	err := sys.Retry(func() error { return unix.Fstatfs(h.fd, &st) })
	return uint32(st.Type), err
}

// isLower reports whether an overlay can lie over a directory of this file system: not
// where names are not told apart by their case.
func isLower(typ uint32) bool {
	switch typ {
	case magicFAT, magicExFAT, magicNTFS, magicNTFS3:
		return false
	}
	return true
}

// isUpper reports whether an overlay can keep what is written in a directory of this file
// system; sure is false where that has to be tried.
func isUpper(typ uint32) (ok, sure bool) {
	switch typ {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, magicF2FS, magicBcachefs:
		return true, true
	case unix.OVERLAYFS_SUPER_MAGIC, unix.NFS_SUPER_MAGIC, magicFAT, magicExFAT, magicNTFS, magicNTFS3,
		magic9P, magicFUSE, magicCIFS, magicSMB2, magicCeph, magicEcryptfs:
		return false, true
	}
	return false, false
}

// holdsModes reports whether a copy of a project can lie on this file system.
func holdsModes(typ uint32) bool {
	return isLower(typ) && typ != magicCIFS && typ != magicSMB2 && typ != magicFUSE
}

// chooseEngine finds the engine for a session whose directory is s.dir and whose roots
// are open. It asks the kernel for types of file systems, and tries only what is not
// known by its type.
func (s *Session) chooseEngine() (Engine, error) {
	for _, low := range s.lower {
		typ, err := fsType(low)
		if err != nil {
			return 0, err
		}
		if !isLower(typ) {
			return EngineCopy, nil
		}
	}
	typ, err := fsType(s.dir)
	if err != nil {
		return 0, err
	}
	ok, sure := isUpper(typ)
	if !sure {
		ok = takesMarks(s.dir)
	}
	if ok {
		return EngineOverlay, nil
	}
	return EngineTmpfs, nil
}
