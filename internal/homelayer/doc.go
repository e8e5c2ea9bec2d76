//go:build linux

// Package homelayer keeps what commands write below a home directory, separately for each project, in upper directories
// of overlays, which belong to one command at a time. It imports internal/deep, internal/owndir and internal/sys, and
// mounts nothing.
//
// A layer is a directory that only its owner can enter:
//
//	lock       bytes that are locked; and whether a command has upper, or was killed while it had
//	project    which project it is of
//	boot       in which boot of the machine it was last used
//	upper work of the command that has the layer to itself
//	runs/ID    lock, upper and work of a command that was started while another one had the layer, and seen: which others
//	           had ended when it began, so that it saw what they wrote
//	runs/ID+   the same, when it has ended
//	runs/moved which run something in upper is of, while runs are merged
//
// The first command locks the layer and writes to upper. Each other one at the same time writes to a directory of its
// own, in an overlay over upper and over the read-only overlay of the home directory (mounts.Mount.Over: an overlay
// cannot have two lower directories of which one lies in the other). The last user of the layer, or the next one,
// merges these directories into upper by renaming whole files, in an order that allows the merge to start again after
// an interruption. If a mount fails because of something that a command left in the layer at its target, that is
// removed.
//
// Everything in the upper directories was written by commands, and is hostile: the package follows, executes and trusts
// nothing in them.
package homelayer
