// Package renames renames directories of an overlay for the processes of a sandbox. An overlay that is mounted in a
// user namespace refuses to rename a directory that lies in a lower layer (EXDEV), and many programs have no other way.
// It imports internal/notify, internal/sandbox, internal/seccomp, internal/sys and mounts, and knows neither sessions
// nor policy.
//
// A filter reports rename(2), renameat(2) and renameat2(2). A thread of this process checks whether the call is about a
// directory, or a file with several names. If not, the kernel carries out the call. If so, the thread makes the same
// call. Only if that is refused with EXDEV, within one mount of an overlay, the thread carries the directory over:
//
//  1. It walks through all of the directory. If something is mounted in it, the call fails with EBUSY, and nothing was
//     done.
//  2. It makes a tree under a temporary name (Prefix) beside the new name: new directories, with their mode, times,
//     attributes and access control lists, and everything else by link(2), so that files keep their identity.
//  3. One rename puts that tree in place, as the flags of the call say.
//  4. It removes the old names. It moves what somebody made or replaced there meanwhile. Where somebody made something
//     at the new name too, both stay, and the old directory with it. Each name goes to another temporary directory
//     before it is removed, and only what is seen there is removed.
//
// So other processes find each file under its old name, its new name or both. With RENAME_EXCHANGE one of the two
// directories is under a temporary name for a moment. This differs from a rename by the kernel: the directories are new
// ones, so that a process which works in an old one, or has it open, finds it empty and removed, as after rmdir(2);
// watches on the old ones end; a file that is removed from the directory meanwhile can appear again; and the rename
// takes time and space, because the overlay copies each file of a lower layer.
//
// The overlay copies a file of a lower layer that is moved. If it has several names, each of them would get a copy of
// its own. So the thread remembers the first copy, and makes further names links to it before it moves them
// (copies.go). It does the same for files in a directory that is carried over.
//
// Links (link.go) of a file of a lower layer get another inode number than the file had. Both names get the new number,
// so that programs see one file. git treats another number as an attack: for git, the new name gets the old number; if
// that fails, git gets EXDEV, and copies. For this it only exchanges names, so that a file which somebody puts in the
// place of the old name meanwhile is not lost. The directory of the old name keeps its modification time, as outside
// (dirtime.go).
//
// # Why it holds
//
// The processes of the sandbox may do what they like at the same time.
//
//  1. Letting the kernel carry out a call allows nothing new: the kernel checks the call as if there were no filter.
//  2. This process acts on descriptors of directories that it reached through the caller's root, working directory or
//     descriptors, and so through the sandbox's mounts, with what these hide and what is read-only in them. It follows
//     no link from there on, and it does so as the same user, without capabilities. If the caller's user is another
//     one, it leaves the call to the kernel, or becomes that user (Server.Owners). So whatever somebody swaps, this
//     process touches only what the processes could have renamed, linked or removed themselves. If the caller has
//     root's capabilities over files of all owners, this process uses them too, but only in overlays of the sandbox:
//     an overlay carries out each call with the rights of whoever mounted it, and that was the sandbox (owners.go).
//  3. There is one exception. If a name is a mount point of theirs (something hidden or protected), the kernel lets
//     nobody in their mount namespace rename or remove the name. But this process is in another mount namespace, and
//     for it the kernel would detach the mount. So this process touches no name that the kernel reports as the root of
//     a mount. Nobody can turn a name into one later: that takes a mount, which they may not make, or a rename of a
//     mount point, which the kernel refuses them. If they may make user namespaces, they make mounts only in mount
//     namespaces of their own, and only those are detached.
//  4. Processes can restrict themselves by Landlock, which binds them, but not this process. Once one has begun to
//     (landlock_restrict_self(2)), this process leaves all calls to the kernel. What a filter of theirs refuses
//     (seccomp) is not reported here.
//  5. The work for one call is bounded (maxEntries, maxDepth), there is one such call at a time, and it ends when the
//     caller is killed. The thread then removes the new tree, or, if that is in place already, the old names.
package renames
