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
		reason: "nsrun has its own help text; only the first line is the same."},
	{name: "Where the root is", key: "in.mount.* root", real: `"/newroot(/.*)?"`, ours: `"/.*"`,
		reason: "The sandbox's root is the root of a file system; with bubblewrap it is a directory in one."},
	{name: "Where the root is", key: "in.mount.* super", real: `"rw(,uid=\d+,gid=\d+)?"`, ours: `"rw,mode=7(00|55)(,uid=\d+,gid=\d+)?"`,
		reason: "nsrun sets the mode of the root when it mounts it, and mountinfo shows that."},
	{name: "Where data is", key: "in.mount.* root", real: `"/bindfile…//deleted"`, ours: `"/t\d+//deleted"`,
		reason: "Both mount a removed file for --bind-data and --ro-bind-data, but the file has another name."},
	{name: "Overlays", key: "in.mount.* layers", real: `",lowerdir=/proc/self/fd/.*`, ours: `",lowerdir=.*`,
		reason: "bubblewrap names layers by descriptor, nsrun by path."},
	{name: "Overlays", key: "stderr", real: `"(.*\\n)?(<3>)?bwrap: Can't make overlay mount on \(null\) with options .*`, ours: `"(.*\\n)?(<3>)?bwrap: Can't make overlay mount on .* with options .*`,
		reason: "nsrun's message names the target, where bubblewrap prints (null), and names the layers by path."},
	{name: "User namespaces with --dev and --disable-userns", line: `.*--(dev|disable-userns)[ \x00].*`, key: "in.[ug]id_map", real: `"\d+ 0 1"`, ours: `"\d+ \d+ 1"`,
		reason: "With --dev or --disable-userns, bubblewrap makes the caller uid 0 in one user namespace, and the wanted uid in another one inside it, whose map shows that 0. nsrun maps the caller to the wanted uid at once; if --disable-userns needs an inner namespace, its map shows that uid."},
	{name: "User namespaces with --dev and --disable-userns", line: `.*--(dev|disable-userns)[ \x00].*`, key: "in.file.*/pts", real: `"040755 .*`, ours: `"040755 (65534:\d+|\d+:65534)"`,
		reason: "The directory of a new devpts belongs to uid and gid 0 of its user namespace. nsrun's user namespace has these ids only if they were asked for."},
	{name: "Hanging children", key: "left", real: `"bwrap"`, ours: missing,
		reason: "If --info-fd or --json-status-fd cannot be written to, or --userns2 cannot be joined, bubblewrap ends and leaves a child that waits forever. nsrun leaves none."},
	{name: "Hanging children", key: "left", real: `"bwrap(\[1\])?"`, ours: `"nobody"`,
		reason: "With --die-with-parent, a sandbox that waits for --block-fd already dies with its monitor. With bubblewrap it does so only later."},
	{name: "Hanging children", key: "tree", real: `"bwrap bwrap\(.*`, ours: `"bwrap\(.*`,
		reason: "If --info-fd or --json-status-fd cannot be written to, or --userns2 cannot be joined, bubblewrap ends and leaves a child that waits forever. nsrun leaves none."},
	{name: "The processes around the command", key: "above.1.(fd/[012]|descriptors of the test)", real: `"(pipe:\[…\]|\[stdin stdout stderr.*)"`, ours: `"(no such file or directory|\[.*\])"`,
		reason: "PID 1, and the process that takes its place, hold only the descriptors that they were asked to hold: not even 0 to 2."},
	{name: "The processes around the command", key: "above.\\d.(SigBlk|SigCgt|Threads)", real: anything, ours: anything,
		reason: "The monitor is a Go program, with threads and signal handlers. PID 1 blocks all signals except those that it handles."},
	{name: "Called as nsrun", line: `.*\(as nsrun\)`, key: "in.file./.*/shm", real: `"040755 .*"`, ours: `"041777 .*"`,
		reason: "In a /dev made by --dev, the directory shm has mode 1777, as on hosts. Called as bwrap, nsrun gives it mode 0755, as bubblewrap does."},
	{name: "Called as nsrun", line: `.*\(as nsrun\)`, key: `(\d+\.)?stderr`, real: `"(.*\\n)?(<\d>)?bwrap: .*"`, ours: `"(.*\\n)?(<\d>)?nsrun: .*"`,
		reason: "Messages begin with nsrun: and may end with a hint."},
	{name: "Mount propagation", key: `in.mount.* propagation`, real: `"master"`, ours: `""`, root: true,
		reason: "What the host mounts or unmounts after the start does not appear in the sandbox: mounts are private, while bubblewrap's are slaves. Otherwise new mounts would appear writable in read-only trees."},
	{name: "What is read-only in /proc", key: `in.mount.*( root| source| super| propagation|/bus|/irq)`, real: missing, ours: anything, root: true,
		reason: "If the caller is root, the parts of /proc through which root can change the host are read-only, whatever the uid in the sandbox is. bubblewrap goes by the uid in the sandbox."},
	{name: "An empty source", line: `.*--(ro-|dev-)?bind-try '' .*`, key: `.*`, real: anything, ours: anything,
		reason: "For nsrun an empty source does not exist, so --bind-try does nothing with it; bubblewrap binds the host's root."},
	{name: "An empty source", line: `.*--info-fd \d+ --bind '' .*`, key: `out\.\d+`, real: anything, ours: anything,
		reason: "nsrun refuses it before there is a sandbox that --info-fd could report."},
	{name: "Namespace descriptors", line: `(.*--pidns .*|join .*|user namespace blocked.*)`, key: `in\.fd\.\d+(\..*)?`, real: anything, ours: missing,
		reason: "nsrun closes the descriptors of --userns, --userns2, --pidns and --userns-block-fd before the command starts. bubblewrap leaves them open in the command."},
	{name: "Where the set-up fails", line: `.*((--file|--bind-data|--ro-bind-data) \d+ (''|\.|/)( .*)?|--remount-ro .*)`, key: `(stderr|host\..*)`, real: anything, ours: anything,
		reason: "nsrun refuses data for the sandbox's root, and --remount-ro of something that does not exist, before it makes anything. bubblewrap first does the steps before them and makes the parents, so another message may come first, and files are left on the host."},
	{name: "Messages", key: `(\d+\.)?stderr`, real: `"(.*\\n)?bwrap: Setting pidns failed: .*\\nbwrap: Unexpected short read from pid socket\\n"`, ours: `"(.*\\n)?bwrap: Setting pidns failed: .*\\n"`,
		reason: "If --pidns fails, there is one message, not two."},
	{name: "Messages", key: `(\d+\.)?stderr`, real: `"bwrap: Setting userns2 failed: Invalid argument\\n"`, ours: `"bwrap: Setting userns2 failed: Operation not permitted\\n"`,
		reason: "If --userns2 names the namespace that is already in use, the kernel's reason for refusing it differs."},
	{name: "Messages", key: `(\d+\.)?stderr`, real: `"(.*\\n)?bwrap: Can\'t bind mount .*`, ours: `"(.*\\n)?bwrap: Can\'t bind mount .*`,
		reason: "Messages name a source that is a link as it was given, not where it leads."},
	{name: "Locks", line: `.*--lock-file /d/unreadable.*`, key: `.*`, real: anything, ours: anything, root: true,
		reason: "nsrun locks files before the command starts, with the capabilities that the command will have. bubblewrap locks them at the same time as it starts, with none."},
	{name: "Capabilities that the caller lacks", line: `.*--cap-add (all|ALL) --cap-drop .*`, key: `in\.cap\..*`, real: anything, ours: anything, root: true,
		reason: "If root asks for more capabilities than it has and drops others, nsrun gives those that root has, without the dropped ones. bubblewrap then drops nothing."},
	{name: "The processes around the command", line: `join .*--pidns .*--unshare-pid.*`, key: `in\.(levels|up\..*)`, real: anything, ours: anything,
		reason: "For a PID namespace inside one that is joined, bubblewrap leaves one more process between the monitor and the command."},
	{name: "LD_PRELOAD", key: "stderr", real: `"ERROR: ld.so: .*`, ours: anything,
		reason: "The dynamic linker also prints errors when it starts bubblewrap; nsrun is a static program."},
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
