// Package fanotify reports changes in directories as they happen: files and directories that are created, written,
// renamed and removed, at any depth. It imports internal/escape and internal/sys, and fsnotify for inotify. It knows
// neither sessions nor sandboxes, and reads no file contents.
//
//	w, err := fanotify.New(fanotify.Options{Roots: []string{"/home/me/src"}})
//	…
//	go func() { cmd.Wait(); w.Stop() }()
//	for ev, err := range w.Events() {
//		…
//	}
//	w.Close()
//
// There are two engines, Fanotify and Inotify; see fanotify(7) and inotify(7).
//
// The engine Fanotify marks the whole file system that a root is on, and gets directories as file handles
// (FAN_REPORT_DFID_NAME_TARGET and FAN_RENAME, Linux 5.17). New directories need no mark of their own, so nothing can
// happen in them unseen. The engine needs CAP_SYS_ADMIN and CAP_DAC_READ_SEARCH; since Linux 6.16, capabilities in a
// user namespace are enough for a file system that was mounted in it. Each event elsewhere on the file system costs one
// look-up of its directory, and is never reported. The engine knows which process made a change.
//
// The engine Inotify needs no privileges; it uses fsnotify. Each directory has a watch and a descriptor of its own. A
// new directory is first watched and then listed, so that files created in between are reported. If a file was created
// and removed in between, the directory has an event Written instead. The engine does not know which process made a
// change, and does not see files that are written through a mapping (mmap(2)).
//
// # Guarantees
//
// Every path that changed has an event, except paths below a directory that was renamed, or moved out of the roots: the
// directory's event stands for all of them. Files that a directory already contained when it was moved into a root have
// events like new files. Events are in the kernel's order. If the kernel merged several into one, Created comes before
// Written, and Written before Removed.
//
// If the kernel's queue was full (16,384 events by default, /proc/sys/fs/fanotify/max_queued_events and
// /proc/sys/fs/inotify/max_queued_events), the iterator returns ErrOverflow. It then walks through the roots, and
// returns events for everything that changed since the queue was last empty. For a directory that may have been renamed
// in that time, it returns events for everything in it. Inotify reports the names of removed files that existed when
// the Watcher began, or that were reported since. For files that were created and removed meanwhile, and with Fanotify
// for all removed files, only the directory has an event Written; a program that keeps a list of names has to list that
// directory again.
//
// The package follows no symbolic link, and enters no other file system that is mounted below a root. It reports names
// as the file system has them: escape control characters before you print them.
//
// Inotify uses one descriptor for each directory, and at most half of the descriptors that the process may have
// (RLIMIT_NOFILE). The kernel takes 1 to 20 ms to close one, so Close does that in the background.
//
// # The upper directory of an overlay
//
// A watch on it reports what is written through the overlay, wherever that is mounted, with some peculiarities. A file
// that is copied up from a lower layer is reported as created and written. A removed file is reported as created,
// because a whiteout appears (a character device 0/0, or an empty file with an attribute). A renamed file leaves a
// whiteout at its old name, without an event of its own. Some kernels (6.1) do not tell that a file there is written
// to: with Options.Sweep it has an event when the Watcher is stopped.
//
// # Cost
//
// The package reads and stores nothing unless somebody iterates: until then events stay in the kernel's queue. In
// memory it keeps the directories in which something happened (Fanotify), or all directories (Inotify): about 40 words
// for each. Inotify also keeps the names of everything in them: their bytes and one more, and eight words for each name
// that was added or removed since its directory was listed. In addition it keeps the events of one read(2), or of one
// directory that is listed. With Options.Sweep it also keeps four words for each path that was reported. The size of
// the roots bounds all this; a slow reader does not increase it.
package fanotify
