//go:build linux

package tools

// Why tasks differ without namespaces: docs/backends.md says so.
const (
	elsewhere = "the project is a copy at another path, which is in what is written, or its own path is asked for"
	manyFiles = "in a copy a file with several names is several files"
	hostsIPC  = "System V IPC, message queues and abstract sockets are the host's"
	hostsTemp = "/tmp and /dev/shm are hidden"
	noSpaces  = "it takes namespaces"
	ownTCP    = "nsrun makes the sockets: of TCP only, for one address, and no port is shared"
)

// apart are the tasks that differ without namespaces.
var apart = map[string]string{
	"git worktree move": elsewhere, "git worktree lock and repair": elsewhere, "git fetch and pull": elsewhere, "git submodule": elsewhere,
	"git submodule of a local path": elsewhere, "git submodule deinit and mv": elsewhere, "cmake": elsewhere, "cmake with ninja": elsewhere,
	"shared library": elsewhere, "sanitizers": elsewhere, "thread sanitizer": elsewhere, "gdb": elsewhere, "valgrind": elsewhere,
	"git init --separate-git-dir, moved again": elsewhere, "a new directory is renamed that is the working directory": elsewhere,
	"python venv": elsewhere, "subversion with renamed directories": elsewhere, "nginx": elsewhere, "unison": elsewhere,

	"cp -a": manyFiles, "tar": manyFiles, "cpio": manyFiles, "hard links: 100 names, packed and unpacked": manyFiles,
	"find -samefile": manyFiles, "mv of all names of an old file": manyFiles, "cp -al of linked files, without the old tree": manyFiles, "cpio by links": manyFiles,

	"dpkg-deb": hostsIPC, "fakeroot": hostsIPC, "set-user-id file in an archive": hostsIPC, "dpkg-buildpackage of a C program": hostsIPC, "dpkg in a root of one's own": hostsIPC,
	"shared memory and semaphores": hostsIPC, "named semaphores and System V IPC": hostsIPC,
	"descriptors by a socket, abstract sockets": hostsIPC,

	"move from /tmp": hostsTemp, "/dev/shm and /dev/null": hostsTemp, "a bus of one's own": hostsTemp, "php's server": hostsTemp,
	"flock of a directory and of /tmp": hostsTemp, "tmux: panes, keys, captures": hostsTemp, "sqlite3: writers, backup, a killed one, WAL": hostsTemp,

	"unshare": noSpaces, "bwrap": noSpaces, "bwrap --unshare-all": noSpaces, "nsrun in nsrun": noSpaces, "chromium with its sandbox": noSpaces,

	"logrotate": elsewhere, "notmuch": elsewhere,

	"git push over a pipe with hooks, force-with-lease": elsewhere,

	"Python: IPv6 on the loopback, dual stack": ownTCP, "Python: UDP, broadcast off, multicast on the loopback": ownTCP, "ports below 1024": ownTCP,
	"a server with SO_REUSEPORT and 200 connections": ownTCP, "networks: ip, ss, interfaces, own host name": ownTCP,

	"Python: EXDEV between the project, /tmp, /dev/shm and home": hostsTemp, "Node: os information and file limits": hostsTemp,

	"ping": "there are no sockets but for TCP",
	"sockets of a directory: datagrams, seqpackets, renamed and linked ones": "datagram sockets exist in pairs only",
	"terminals of root belong to the group tty":                              "they are the host's",
	"access control list for another user, as one":                           "nothing is in the way of it",
}
