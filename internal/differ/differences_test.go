//go:build linux && !race

package differ

import (
	"regexp"
)

// meant is a difference that is by design. The texts are those of difference.
type meant struct {
	name   string // as in docs/bwrap-differences.md
	line   string // regular expressions, anchored at both ends; "" is any
	key    string
	real   string
	ours   string
	reason string
	root   bool // only root sees it
	hit    int
}

const anything = ".*"

var allMeant = []*meant{
	{name: "Help", key: "help", real: `".*"`, ours: `".*"`,
		reason: "The help is in words of our own; only its first line is the same."},
	{name: "Where the root is", key: "in.mount.* root", real: `"/newroot(/.*)?"`, ours: `"/.*"`,
		reason: "The root is a file system's root, not a directory in one."},
	{name: "Where the root is", key: "in.mount.* super", real: `"rw(,uid=\d+,gid=\d+)?"`, ours: `"rw,mode=7(00|55)(,uid=\d+,gid=\d+)?"`,
		reason: "Its mode is given when it is mounted, which mountinfo shows."},
	{name: "Where data is", key: "in.mount.* root", real: `"/bindfile…//deleted"`, ours: `"/t\d+//deleted"`,
		reason: "What --bind-data and --ro-bind-data mount is a removed file in both, with another name."},
	{name: "Overlays", key: "in.mount.* layers", real: `",lowerdir=/proc/self/fd/.*`, ours: `",lowerdir=.*`,
		reason: "Bubblewrap names layers by descriptor, nsrun by path."},
	{name: "Overlays", key: "stderr", real: `"(.*\\n)?(<3>)?bwrap: Can't make overlay mount on \(null\) with options .*`, ours: `"(.*\\n)?(<3>)?bwrap: Can't make overlay mount on .* with options .*`,
		reason: "The message names the place, where bubblewrap prints (null), and the layers by path."},
	{name: "User namespaces with --dev and --disable-userns", line: `.*--(dev|disable-userns)[ \x00].*`, key: "in.[ug]id_map", real: `"\d+ 0 1"`, ours: `"\d+ \d+ 1"`,
		reason: "Where --dev or --disable-userns stands, bubblewrap makes the caller uid 0 of one user namespace and the wanted uid of another one within it, whose map shows that 0. Nsrun maps to the wanted uid at once; where --disable-userns needs an inner namespace, its map shows that uid."},
	{name: "User namespaces with --dev and --disable-userns", line: `.*--(dev|disable-userns)[ \x00].*`, key: "in.file.*/pts", real: `"040755 .*`, ours: `"040755 (65534:\d+|\d+:65534)"`,
		reason: "The directory of a new devpts belongs to uid and gid 0 of its user namespace; nsrun's has them only if they were asked for."},
	{name: "Hanging children", key: "left", real: `"bwrap"`, ours: missing,
		reason: "Where --info-fd or --json-status-fd cannot be written to, or --userns2 cannot be joined, bubblewrap ends and leaves a child that waits forever. Nsrun leaves none."},
	{name: "Hanging children", key: "left", real: `"bwrap(\[1\])?"`, ours: `"nobody"`,
		reason: "A sandbox that waits for --block-fd dies with its monitor if --die-with-parent is given; bubblewrap's does so only later."},
	{name: "Hanging children", key: "tree", real: `"bwrap bwrap\(.*`, ours: `"bwrap\(.*`,
		reason: "Where --info-fd or --json-status-fd cannot be written to, or --userns2 cannot be joined, bubblewrap ends and leaves a child that waits forever. Nsrun leaves none."},
	{name: "The processes around the command", key: "above.1.(fd/[012]|descriptors of the test)", real: `"(pipe:\[…\]|\[stdin stdout stderr.*)"`, ours: `"(no such file or directory|\[.*\])"`,
		reason: "PID 1 and the process that stands in for it hold no descriptors but those they were asked to hold: not even 0 to 2."},
	{name: "The processes around the command", key: "above.\\d.(SigBlk|SigCgt|Threads)", real: anything, ours: anything,
		reason: "The monitor is a Go program, with threads and handlers for signals; PID 1 blocks all signals but those it acts upon."},
	{name: "Called as nsrun", line: `.*\(as nsrun\)`, key: "in.file./.*/shm", real: `"040755 .*"`, ours: `"041777 .*"`,
		reason: "In a /dev of --dev the directory shm has mode 1777, as hosts have it. Called as bwrap it has 0755, as bubblewrap's."},
	{name: "Called as nsrun", line: `.*\(as nsrun\)`, key: `(\d+\.)?stderr`, real: `"(.*\\n)?(<\d>)?bwrap: .*"`, ours: `"(.*\\n)?(<\d>)?nsrun: .*"`,
		reason: "Messages begin with nsrun:, and may end with a hint."},
	{name: "Mount propagation", key: `in.mount.* propagation`, real: `"master"`, ours: `""`, root: true,
		reason: "What the host mounts or unmounts after the start does not arrive in the sandbox: mounts are private, where bubblewrap's are slaves. Otherwise it would appear in read-only trees, writable."},
	{name: "What is read-only in /proc", key: `in.mount.*( root| source| super| propagation|/bus|/irq)`, real: missing, ours: anything, root: true,
		reason: "Where root is the caller, the parts of /proc through which root can change the host are read-only whatever its uid inside is; bubblewrap looks at the uid inside."},
	{name: "An empty source", line: `.*--(ro-|dev-)?bind-try '' .*`, key: `.*`, real: anything, ours: anything,
		reason: "An empty source does not exist, so --bind-try does nothing with it; bubblewrap binds the host's root."},
	{name: "An empty source", line: `.*--info-fd \d+ --bind '' .*`, key: `out\.\d+`, real: anything, ours: anything,
		reason: "Nsrun refuses it before there is a sandbox to tell --info-fd about."},
	{name: "Namespace descriptors", line: `(.*--pidns .*|join .*|user namespace blocked.*)`, key: `in\.fd\.\d+(\..*)?`, real: anything, ours: missing,
		reason: "The descriptors of --userns, --userns2, --pidns and --userns-block-fd are used up: the command does not have them. Bubblewrap leaves them open in it."},
	{name: "Where the set-up fails", line: `.*((--file|--bind-data|--ro-bind-data) \d+ (''|\.|/)( .*)?|--remount-ro .*)`, key: `(stderr|host\..*)`, real: anything, ours: anything,
		reason: "Data for the sandbox's root, and --remount-ro of what is not there, are refused before anything was made. Bubblewrap does the steps before them, and makes the parents, so that another message may come first and files are left on the host."},
	{name: "Messages", key: `(\d+\.)?stderr`, real: `"(.*\\n)?bwrap: Setting pidns failed: .*\\nbwrap: Unexpected short read from pid socket\\n"`, ours: `"(.*\\n)?bwrap: Setting pidns failed: .*\\n"`,
		reason: "Where --pidns fails there is one message, not two."},
	{name: "Messages", key: `(\d+\.)?stderr`, real: `"bwrap: Setting userns2 failed: Invalid argument\\n"`, ours: `"bwrap: Setting userns2 failed: Operation not permitted\\n"`,
		reason: "The kernel's reason for refusing --userns2 differs where the one that is in use is meant."},
	{name: "Messages", key: `(\d+\.)?stderr`, real: `"(.*\\n)?bwrap: Can\'t bind mount .*`, ours: `"(.*\\n)?bwrap: Can\'t bind mount .*`,
		reason: "A source that is a link is named as it was given, not where it leads."},
	{name: "Locks", line: `.*--lock-file /d/unreadable.*`, key: `.*`, real: anything, ours: anything, root: true,
		reason: "Files are locked before the command starts, with the capabilities that it will have; bubblewrap locks them beside it, with none."},
	{name: "Capabilities that the caller lacks", line: `.*--cap-add (all|ALL) --cap-drop .*`, key: `in\.cap\..*`, real: anything, ours: anything, root: true,
		reason: "Where root asks for more capabilities than it has, and to drop others, it gets what there is without those. Bubblewrap then drops nothing."},
	{name: "The processes around the command", line: `join .*--pidns .*--unshare-pid.*`, key: `in\.(levels|up\..*)`, real: anything, ours: anything,
		reason: "For a PID namespace below one that is joined bubblewrap leaves one process more between the monitor and the command."},
	{name: "LD_PRELOAD", key: "stderr", real: `"ERROR: ld.so: .*`, ours: anything,
		reason: "The dynamic linker speaks for bubblewrap too; nsrun is a static program."},
}

// isMeant reports whether a difference is by design.
func isMeant(line string, d difference) bool {
	for _, m := range allMeant {
		if (m.line == "" || match(m.line, line)) && match(m.key, d.key) && match(m.real, d.real) && match(m.ours, d.ours) {
			m.hit++
			return true
		}
	}
	return false
}

var compiled = make(map[string]*regexp.Regexp)

func match(pattern, s string) bool {
	re := compiled[pattern]
	if re == nil {
		re = regexp.MustCompile(`^(?s:` + pattern + `)$`)
		compiled[pattern] = re
	}
	return re.MatchString(s)
}
