// Package idmap gives the commands of a host's root ids of their own: user and group 0 of the sandbox, and all others,
// are ids that nobody has outside. It imports internal/paths, internal/sandbox, internal/sys and nsexec, and knows
// neither sessions nor policy.
//
// Files keep their owners: what the command may use is shown by idmapped mounts (mount_setattr(2)), in which id n of
// the disk is id n of the sandbox. For files that are reached in any other way, the command is nobody. This is the
// difference to a command of root's without own ids, whose ids are those of the host:
//
//   - Capabilities are harmless. CAP_CHOWN, CAP_FOWNER and CAP_DAC_OVERRIDE hold for an inode if its owner and group
//     exist in the user namespace (capable_wrt_inode_uidgid, user_namespaces(7)). Those of the host's files, devices,
//     terminals, pipes and entries of /proc do not.
//   - CAP_SYS_PTRACE and CAP_KILL hold for processes of the sandbox's user namespace. PID 1 is not among them for
//     ptrace(2), because its memory belongs to the host's namespace. CAP_SYS_CHROOT makes another directory the root
//     that the command can reach already.
//   - Root's own files are out of reach too, if permissions protect them from others.
//
// With HostRoot, user and group 0 are those of the host's root, and only the other ids are the command's own. Then the
// capabilities also hold for files outside whose owner and group are both root.
//
// Ids from First on are used. sssd(8) assigns ids below 2000200000 by default. systemd leaves 1879048192 to 2147352575
// to nobody (UIDS-GIDS): files of images that are not the host's own belong to the ids from 2147352576 on. Ids of the
// sandbox that are too high for these have outer ids from 1<<31 on, which are negative where an id has 32 bits. Nobody
// uses them. So a file's owner has no id in the sandbox only if its id is from 1<<31 to 1<<32-1<<16-1: then the command
// cannot change the file. All sandboxes have the same ids. Their processes do not see each other.
package idmap
