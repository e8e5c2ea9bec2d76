// Package tree reads the two sides of a root and lists how they differ: what a session wrote (an
// upper directory of overlayfs, or the same stored as an index and files), and what it was written
// over (a project, or layers over it). It copies objects between directories, makes real objects
// from stored ones, and has the system calls that package overlay needs.
//
// The package opens everything below a directory that it holds open, without following a symbolic
// link or crossing into another mount, and compares it with what it saw before: the owner of a tree
// may change it meanwhile (ErrMoved). Errors with a path are *fs.PathError.
//
// The package may import internal/sys and internal/deep. It knows no session, no journal and no state directory, and
// writes only where its caller has opened a directory to write to.
package tree

import "errors"

// ErrMoved is wrapped when an object became another one while it was looked at.
var ErrMoved = errors.New("changed while it was being looked at")

// ErrNumbers is returned where objects do not keep their inode numbers, which say what a commit has moved: some file
// systems of FUSE make numbers of paths.
var ErrNumbers = errors.New("this file system gives a renamed directory another inode number, so a commit could not be taken back")

// ErrTimes is returned where objects do not keep their modification times, which say whether somebody has written to
// them: encfs cuts off the fractions of seconds.
var ErrTimes = errors.New("this file system changes the modification time of a file that is renamed, so a commit could not be taken back")

// ErrNoLinks is returned where a symbolic link would be made on a file system that has none.
var ErrNoLinks = errors.New("this file system has no symbolic links")
