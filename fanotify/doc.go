// Package fanotify tells what changes in directories while it happens: files and
// directories that are created, written, renamed and removed, at any depth.
//
//	w, err := fanotify.New(fanotify.Options{Roots: []string{"/home/me/src"}})
//	…
//	go func() { cmd.Wait(); w.Stop() }()
//	for ev, err := range w.Events() {
//		…
//	}
//	w.Close()
//
// There are two engines, see fanotify(7) and inotify(7).
//
// The engine Fanotify marks the whole file system that a root is on, and gets
// directories as file handles (FAN_REPORT_DFID_NAME_TARGET and FAN_RENAME, Linux 5.17).
// New directories need nothing to be done, so nothing can happen in them unseen. It
// takes CAP_SYS_ADMIN and CAP_DAC_READ_SEARCH; since Linux 6.16 those of a user namespace
// will do for a file system that was mounted in it. What happens elsewhere on the file
// system costs a look at each event's directory, and is never told. It knows which
// process did it.
//
// The engine Inotify is for everybody else. It goes through fsnotify. Each directory has
// a watch and a descriptor of its own; a new one is watched first and listed then, so
// that what was created in between is told; what also went in between is not, and the
// directory has an event Written in its place. It does not know processes, and not of files
// that are written through a mapping (mmap(2)).
//
// # What is certain
//
// Every path that something happened to has an event, but for those below a directory
// that was renamed, or removed by renaming it to somewhere else: there the directory's
// event stands for all. What was already there when a directory came from somewhere else
// has events like new files. Events are in order as the kernel has it; where the kernel
// put several into one, Created comes before Written, and that before Removed.
//
// Where the kernel's queue was full (16,384 events by default,
// /proc/sys/fs/fanotify/max_queued_events and /proc/sys/fs/inotify/max_queued_events),
// the iterator says ErrOverflow, then looks through the roots, and goes on with events
// for all that changed since the queue was last empty; of a directory that may have got
// another name in that time, for all that is in it. Inotify tells what has gone by its name, if
// it was there when the Watcher began or was told since. Of what came and went meanwhile, and
// with Fanotify of all that has gone, only the directory tells: it has an event Written, and has
// to be listed by who keeps a list.
//
// Nothing here follows a symbolic link or goes into another file system that is mounted
// below a root. Names are as the file system has them: whoever prints them has to escape
// control characters.
//
// # The upper directory of an overlay
//
// It tells what is written through the overlay, wherever that is mounted, with some
// peculiarities: what comes from below is created, and written too; what was removed is
// created as a whiteout (a character device 0/0, or an empty file with an attribute); what
// was renamed leaves a whiteout at its old name without an event of its own.
//
// # What it costs
//
// Nothing is read, and nothing kept, unless somebody iterates: the kernel's queue holds
// what comes meanwhile. In memory are the directories that something happened in
// (Fanotify), or all there are (Inotify): about 40 words for each. Inotify also keeps the
// names of all that is in them: their bytes and one more, and eight words for each that came or
// went since its directory was listed. Beyond that there are the events of one read(2), or of
// one directory that is listed. With Options.Sweep also four words for each path that was
// told. What bounds it is how much there is in the roots: how late somebody reads does not
// matter.
package fanotify
