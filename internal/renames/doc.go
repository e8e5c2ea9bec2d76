// Package renames has directories of an overlay renamed for the processes of a sandbox. An overlay that a user namespace mounts
// refuses that (EXDEV) for a directory that lies in a lower layer, and many programs have no other way. It imports
// internal/notify, internal/sandbox, internal/seccomp and internal/sys, and knows neither sessions nor policy.
//
// A filter tells of rename(2), renameat(2) and renameat2(2). A thread of this process looks whether a directory is meant. If not,
// the kernel does the call. If so, the thread makes the same call; only if that is refused with EXDEV, within one mount of an
// overlay, the directory is carried over:
//
//  1. All of it is looked at. If something is mounted in it, the call fails with EBUSY, and nothing was done.
//  2. A tree under a temporary name (Prefix) is made beside the new name: directories anew, with their mode, times, attributes
//     and access control lists, and everything else by link(2), so that files stay the files that they are.
//  3. One rename puts that tree where the directory is wanted, as the flags of the call say.
//  4. The old names are removed. What somebody made or replaced there meanwhile is moved.
//
// So whoever looks finds each file under its old name, its new name or both. With RENAME_EXCHANGE one of the two directories is
// under a temporary name for a moment. What is different from a rename by the kernel: the directories are new ones, so that a
// process which works in an old one, or has it open, finds it empty and removed, as after rmdir(2); watches on them end; what is
// removed from the directory while it is carried over can appear again; and it takes time and space, because the overlay copies
// each file of a lower layer.
//
// Links (link.go) of a file of a lower layer get another inode number than the file had. Both names get the new one, so that
// programs see one file. git takes another number for an attack: for git the new name gets the old number; where that fails, git
// is answered EXDEV, and copies. Names are only exchanged for that, so that a file which somebody puts in the place of the old name
// meanwhile is not lost.
//
// # Why it holds
//
// The processes of the sandbox may do what they like at the same time.
//
//  1. Letting the kernel do a call gives nothing away: it checks it as if there were no filter.
//  2. This process acts on descriptors of directories that it reached through the caller's root, working directory or descriptors,
//     and so through the sandbox's mounts, with what these hide and what is read-only in them. It follows no link from there on,
//     and it does so as the same user, without capabilities. If the caller's user is another one, it leaves the call to the
//     kernel. So whatever is swapped, it is something that the processes could have renamed, linked or removed themselves.
//  3. One thing they could not: where a mount of theirs is (what is hidden or protected), the kernel lets nobody in their mount
//     namespace rename or remove the name, but it would detach the mount for somebody in another one, who we are. So no name is
//     touched that the kernel calls the root of a mount. Nobody can make it one later: that takes a mount, which they may not
//     make, or a rename of a mount's name, which the kernel refuses them. Where they may make user namespaces, they make mounts in
//     mount namespaces of their own only, and what is detached there is theirs.
//  4. Processes can have taken rights away from themselves by Landlock, which bind them, and not this process. Once one has begun to
//     (landlock_restrict_self(2)), all calls are left to the kernel. What a filter of theirs refuses (seccomp) is not told of.
//  5. The work for one call is bounded (maxEntries, maxDepth), there is one such call at a time, and it ends when the caller is
//     killed. Then what was made is removed, or, if it is in place already, the old names are.
package renames
