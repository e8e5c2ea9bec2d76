// Package fanotify reports changes in directories while they happen: files and directories that are created, written,
// renamed and removed, at any depth. It imports internal/escape and internal/sys, and fsnotify for inotify. It knows neither
// sessions nor sandboxes, and reads no file contents.
//
//	w, err := fanotify.New(fanotify.Options{Roots: []string{"/home/me/src"}})
//	…
//	go func() { cmd.Wait(); w.Stop() }()
//	for ev, err := range w.Events() {
//		…
//	}
//	w.Close()
//
// There are two engines; see fanotify(7) and inotify(7).
//
// The engine Fanotify marks the whole file system that a root is on, and gets directories as file handles
// (FAN_REPORT_DFID_NAME_TARGET and FAN_RENAME, Linux 5.17). New directories need no action, so nothing can happen in them
// unseen. It needs CAP_SYS_ADMIN and CAP_DAC_READ_SEARCH; since Linux 6.16 those of a user namespace are enough for a file
// system that was mounted in it. Events elsewhere on the file system cost one look at their directory, and are never
// reported. It knows which process made a change.
//
// The engine Inotify is for everybody else, through fsnotify. Each directory has a watch and a descriptor of its own. A new
// directory is watched first and listed then, so that what was created in between is reported. For what was created and
// removed in between, the directory has an event Written instead. Inotify does not know processes, and does not see files
// that are written through a mapping (mmap(2)).
//
// # What is certain
//
// Every path that something happened to has an event, except paths below a directory that was renamed, or removed by
// renaming it to somewhere else: the directory's event stands for all of them. What a directory already contained when it
// was moved into a root has events like new files. Events are in the order of the kernel. If the kernel merged several into
// one, Created comes before Written, and that before Removed.
//
// If the kernel's queue was full (16,384 events by default, /proc/sys/fs/fanotify/max_queued_events and
// /proc/sys/fs/inotify/max_queued_events), the iterator returns ErrOverflow, then looks through the roots, and goes on with
// events for everything that changed since the queue was last empty; for a directory that may have been renamed in that
// time, with events for everything in it. Inotify reports by name what was removed, if it existed when the Watcher began or
// was reported since. For what was created and removed meanwhile, and with Fanotify for everything that was removed, only
// the directory has an event Written; whoever keeps a list of names has to list it.
//
// Nothing here follows a symbolic link, or enters another file system that is mounted below a root. Names are as the file
// system has them: escape control characters before you print them.
//
// Inotify needs a descriptor for each directory: at most half of those that the process may have. Closing takes the kernel 1
// to 20 ms, so Close does it in the background.
//
// # The upper directory of an overlay
//
// It shows what is written through the overlay, wherever that is mounted, with some peculiarities: a file that comes from
// below is created, and written too; a removed file is created as a whiteout (a character device 0/0, or an empty file with
// an attribute); a renamed file leaves a whiteout at its old name without an event of its own. Some kernels (6.1) do not tell
// that a file there is written to: with Options.Sweep it has an event when the Watcher is stopped.
//
// # What it costs
//
// Nothing is read or stored unless somebody iterates: until then events stay in the kernel's queue. In memory are the
// directories in which something happened (Fanotify), or all directories (Inotify): about 40 words for each. Inotify also
// keeps the names of everything in them: their bytes and one more, and eight words for each that came or went since its
// directory was listed. In addition there are the events of one read(2), or of one directory that is listed. With
// Options.Sweep there are also four words for each path that was reported. The size of the roots bounds all this, not how
// late somebody reads.
package fanotify
