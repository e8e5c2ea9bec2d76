//go:build linux

package bwrap

import (
	"strings"
	"syscall"
)

// parseCase is a command line and what has to become of it. The same cases are
// given to bubblewrap itself.
type parseCase struct {
	// args are the words, separated by spaces; two quotes are an empty word,
	// and a middle dot stands for a space within a word.
	args string
	// fds are the contents of descriptors 3, 4 and so on, in which a comma
	// stands for NUL.
	fds []string
	// err is the text of the error. Empty: there must be none.
	err string
	// warn are the options whose repetition is warned of.
	warn string
	// want makes the expected Config of one that has only Command, which is
	// what follows the last option.
	want func(c *Config)
	// env changes the surroundings. Such cases are not given to bubblewrap, as
	// are those with notReal.
	env     func(e *Env)
	notReal string
}

func (c *parseCase) words() []string {
	words := strings.Fields(c.args)
	for i, w := range words {
		if w == "''" {
			words[i] = ""
		} else {
			words[i] = strings.ReplaceAll(w, "·", " ")
		}
	}
	return words
}

func (c *parseCase) contents() []string {
	var out []string
	for _, s := range c.fds {
		out = append(out, strings.ReplaceAll(s, ",", "\x00"))
	}
	return out
}

// readFD returns what Env.ReadFD does in tests: every descriptor can be read
// once.
func (c *parseCase) readFD() func(fd int) ([]byte, error) {
	contents := c.contents()
	done := make([]bool, len(contents))
	return func(fd int) ([]byte, error) {
		if fd < 3 || fd-3 >= len(contents) || done[fd-3] {
			return nil, syscall.EBADF
		}
		done[fd-3] = true
		return []byte(contents[fd-3]), nil
	}
}

func ops(list ...SetupOp) func(c *Config) {
	return func(c *Config) { c.Ops = list }
}

func envs(list ...EnvOp) func(c *Config) {
	return func(c *Config) { c.Environ = list }
}

// Steps without and with a descriptor.
func op(kind OpKind, source, dest string) SetupOp {
	return SetupOp{Kind: kind, Source: source, Dest: dest, FD: -1}
}

func opFD(kind OpKind, fd int, dest string) SetupOp {
	return SetupOp{Kind: kind, FD: fd, Dest: dest}
}

func (o SetupOp) def(perms uint32) SetupOp   { o.Perms = perms; return o }
func (o SetupOp) perms(perms uint32) SetupOp { o.Perms = perms; o.HasPerms = true; return o }
func (o SetupOp) try() SetupOp               { o.Try = true; return o }
func (o SetupOp) size(n uint64) SetupOp      { o.Size = n; return o }
func (o SetupOp) layers(l ...string) SetupOp { o.Layers = l; return o }
func (o SetupOp) work(dir string) SetupOp    { o.WorkDir = dir; return o }

const (
	stopHelp    = "help requested"
	stopVersion = "version requested"
	stopNothing = "no command given"

	permsTail  = "--perms must be followed by an option that creates a file"
	sizeTail   = "--size must be followed by --tmpfs"
	layersTail = "--overlay-src must be followed by another --overlay-src or one of --overlay, --tmp-overlay, or --ro-overlay"
	octalPerms = "--perms takes an octal argument <= 07777"
	octalChmod = "--chmod takes an octal argument <= 07777"
	zeroSize   = "--size takes a non-zero number of bytes"
	tooMany    = "Exceeded maximum number of arguments 9000"
	noLabels   = "labeling not supported on this system"
	badFile    = "Can't read --args data: Bad file descriptor"
)

func extensions(e *Env) { e.Extensions = true }

func user(e *Env) { e.UID, e.GID = 1000, 1001 }

func hasUserns(e *Env) { e.UserNamespaces = func() bool { return true } }

// parseCases are run as root, without capabilities unless env says otherwise.
var parseCases = []parseCase{
	// Where options end.
	{args: "true"},
	{args: "-- true"},
	{args: "-- --bind", want: func(c *Config) { c.Command = []string{"--bind"} }},
	{args: "-- -- true", want: func(c *Config) { c.Command = []string{"--", "true"} }},
	{args: "true --bind a b", want: func(c *Config) { c.Command = []string{"true", "--bind", "a", "b"} }},
	{args: "true -- x", want: func(c *Config) { c.Command = []string{"true", "--", "x"} }},
	{args: "''", want: func(c *Config) { c.Command = []string{""} }},
	{args: "'' --bogus", want: func(c *Config) { c.Command = []string{"", "--bogus"} }},
	{args: "", err: stopNothing},
	{args: "--", err: stopNothing},
	{args: "--unshare-pid", err: stopNothing, want: func(c *Config) { c.UnsharePID = true }},
	{args: "-", err: "Unknown option -"},
	{args: "-x true", err: "Unknown option -x"},
	{args: "-h", err: "Unknown option -h"},
	{args: "--bogus true", err: "Unknown option --bogus"},
	{args: "--bind=a b true", err: "Unknown option --bind=a"},
	{args: "--unshare true", err: "Unknown option --unshare"},
	{args: "--unshare-al true", err: "Unknown option --unshare-al"},
	{args: "--Bind a b true", err: "Unknown option --Bind"},
	{args: "--help·", err: "Unknown option --help "},

	// Help and version, at once.
	{args: "--help", err: stopHelp},
	{args: "--help --bogus", err: stopHelp},
	{args: "--bogus --help", err: "Unknown option --bogus"},
	{args: "--version", err: stopVersion},
	{args: "--version --bogus", err: stopVersion},
	{args: "--unshare-pid --version true", err: stopVersion, want: func(c *Config) { c.UnsharePID = true }},
	{args: "--perms 0700 --help", err: stopHelp},
	{args: "--overlay-src a --version", err: stopVersion},
	{args: "true --help", want: func(c *Config) { c.Command = []string{"true", "--help"} }},
	{args: "--help --version", err: stopHelp},
	{args: "--chdir a --chdir b --help", warn: "--chdir", err: stopHelp, want: func(c *Config) { c.Chdir = some("b") }},

	// Missing words.
	{args: "--args", err: "--args takes an argument"},
	{args: "--argv0", err: "--argv0 takes one argument"},
	{args: "--chdir", err: "--chdir takes one argument"},
	{args: "--remount-ro", err: "--remount-ro takes one argument"},
	{args: "--bind", err: "--bind takes two arguments"},
	{args: "--bind a", err: "--bind takes two arguments"},
	{args: "--bind-try a", err: "--bind-try takes two arguments"},
	{args: "--ro-bind a", err: "--ro-bind takes two arguments"},
	{args: "--ro-bind-try a", err: "--ro-bind-try takes two arguments"},
	{args: "--dev-bind a", err: "--dev-bind takes two arguments"},
	{args: "--dev-bind-try a", err: "--dev-bind-try takes two arguments"},
	{args: "--bind-fd 3", err: "--bind-fd takes two arguments"},
	{args: "--ro-bind-fd 3", err: "--bind-fd takes two arguments"},
	{args: "--overlay a b", err: "--overlay takes three arguments"},
	{args: "--overlay", err: "--overlay takes three arguments"},
	{args: "--tmp-overlay", err: "--tmp-overlay takes an argument"},
	{args: "--ro-overlay", err: "--ro-overlay takes an argument"},
	{args: "--overlay-src", err: layersTail},
	{args: "--perms 0700 --overlay-src", err: permsTail},
	{args: "--proc", err: "--proc takes an argument"},
	{args: "--dev", err: "--dev takes an argument"},
	{args: "--tmpfs", err: "--tmpfs takes an argument"},
	{args: "--mqueue", err: "--mqueue takes an argument"},
	{args: "--dir", err: "--dir takes an argument"},
	{args: "--file 3", err: "--file takes two arguments"},
	{args: "--file x", err: "--file takes two arguments"},
	{args: "--bind-data 3", err: "--bind-data takes two arguments"},
	{args: "--ro-bind-data 3", err: "--ro-bind-data takes two arguments"},
	{args: "--symlink a", err: "--symlink takes two arguments"},
	{args: "--lock-file", err: "--lock-file takes an argument"},
	{args: "--sync-fd", err: "--sync-fd takes an argument"},
	{args: "--block-fd", err: "--block-fd takes an argument"},
	{args: "--userns-block-fd", err: "--userns-block-fd takes an argument"},
	{args: "--info-fd", err: "--info-fd takes an argument"},
	{args: "--json-status-fd", err: "--json-status-fd takes an argument"},
	{args: "--seccomp", err: "--seccomp takes an argument"},
	{args: "--add-seccomp-fd", err: "--add-seccomp-fd takes an argument"},
	{args: "--userns", err: "--userns takes an argument"},
	{args: "--userns2", err: "--userns2 takes an argument"},
	{args: "--pidns", err: "--pidns takes an argument"},
	{args: "--setenv A", err: "--setenv takes two arguments"},
	{args: "--unsetenv", err: "--unsetenv takes an argument"},
	{args: "--uid", err: "--uid takes an argument"},
	{args: "--gid", err: "--gid takes an argument"},
	{args: "--hostname", err: "--hostname takes an argument"},
	{args: "--cap-add", err: "--cap-add takes an argument"},
	{args: "--cap-drop", err: "--cap-drop takes an argument"},
	{args: "--perms", err: "--perms takes an argument"},
	{args: "--size", err: "--size takes an argument"},
	{args: "--chmod 0700", err: "--chmod takes two arguments"},
	{args: "--exec-label", err: "--exec-label takes an argument"},
	{args: "--file-label", err: "--file-label takes an argument"},
	{args: "--bind --help --version true", want: ops(op(OpBind, "--help", "--version"))},

	// Namespaces.
	{args: "--unshare-user true", want: func(c *Config) { c.UnshareUser = true }},
	{args: "--unshare-ipc --unshare-uts true", want: func(c *Config) { c.UnshareIPC, c.UnshareUTS = true, true }},
	{args: "--unshare-cgroup --unshare-cgroup-try true", want: func(c *Config) { c.UnshareCgroup, c.UnshareCgroupTry = true, true }},
	{args: "--unshare-user-try true"},
	{args: "--unshare-user-try true", env: hasUserns, want: func(c *Config) { c.UnshareUser = true }},
	{args: "--unshare-all true", want: unshareAll},
	{args: "--unshare-all true", env: hasUserns, want: func(c *Config) { unshareAll(c); c.UnshareUser = true }},
	{args: "--unshare-all --share-net true", want: func(c *Config) { unshareAll(c); c.UnshareNet = false }},
	{args: "--share-net --unshare-all true", want: unshareAll},
	{args: "--unshare-net --share-net true"},
	{args: "--share-net --unshare-net true", want: func(c *Config) { c.UnshareNet = true }},
	{args: "true", env: user, want: func(c *Config) { c.UnshareUser = true; c.UID.Value, c.GID.Value = 1000, 1001 }},
	{args: "--userns 3 true", env: user, want: func(c *Config) { c.UserNS = some(3); c.UID.Value, c.GID.Value = 1000, 1001 }},
	{args: "--userns 3 --userns2 4 --pidns 5 true", want: func(c *Config) { c.UserNS, c.UserNS2, c.PIDNS = some(3), some(4), some(5) }},
	{args: "--userns 3 --unshare-user true", err: "--userns is not compatible with --unshare-user"},
	{args: "--userns 3 --unshare-user-try true", err: "--userns is not compatible with --unshare-user-try"},
	{args: "--userns 3 --unshare-all true", err: "--userns is not compatible with --unshare-user-try"},
	{args: "--userns 3 --unshare-user", err: "--userns is not compatible with --unshare-user"},
	{args: "--userns 3 --userns 4 true", warn: "--userns", want: func(c *Config) { c.UserNS = some(4) }},
	{args: "--userns2 3 --userns2 3 true", warn: "--userns2", want: func(c *Config) { c.UserNS2 = some(3) }},
	{args: "--pidns 4 --pidns 3 true", warn: "--pidns", want: func(c *Config) { c.PIDNS = some(3) }},
	{args: "--disable-userns true", err: "--disable-userns requires --unshare-user"},
	{args: "--disable-userns true", env: user, err: "--disable-userns requires --unshare-user"},
	{args: "--disable-userns --unshare-user-try true", err: "--disable-userns requires --unshare-user"},
	{args: "--disable-userns --unshare-user true", want: func(c *Config) { c.DisableUserns, c.UnshareUser = true, true }},
	{args: "--disable-userns --unshare-user --userns-block-fd 3 --info-fd 4 true", err: "--disable-userns is not compatible with --userns-block-fd"},
	{args: "--assert-userns-disabled true", want: func(c *Config) { c.AssertUsernsDisabled = true }},

	// Identity.
	{args: "--unshare-user --uid 5 --gid 6 true", want: func(c *Config) { c.UnshareUser = true; c.UID, c.GID = some[uint32](5), some[uint32](6) }},
	{args: "--userns 9 --uid 5 true", want: func(c *Config) { c.UserNS = some(9); c.UID = some[uint32](5) }},
	{args: "--uid 5 true", err: "Specifying --uid requires --unshare-user or --userns"},
	{args: "--gid 5 true", err: "Specifying --gid requires --unshare-user or --userns"},
	{args: "--gid 5 --uid 5 true", err: "Specifying --uid requires --unshare-user or --userns"},
	{args: "--uid 0 --gid 0 true", want: func(c *Config) { c.UID, c.GID = some[uint32](0), some[uint32](0) }},
	{args: "--uid 5", err: stopNothing},
	{args: "--unshare-user --uid 1 --uid 2 true", warn: "--uid", want: func(c *Config) { c.UnshareUser = true; c.UID = some[uint32](2) }},
	{args: "--unshare-user --gid 1 --gid 1 true", warn: "--gid", want: func(c *Config) { c.UnshareUser = true; c.GID = some[uint32](1) }},
	{args: "--unshare-user --uid 1 --uid x true", warn: "--uid", err: "Invalid uid: x"},
	{args: "--uid x true", err: "Invalid uid: x"},
	{args: "--uid '' true", err: "Invalid uid: "},
	{args: "--uid -1 true", err: "Invalid uid: -1"},
	{args: "--uid 1x true", err: "Invalid uid: 1x"},
	{args: "--uid 0x1 true", err: "Invalid uid: 0x1"},
	{args: "--uid 1· true", err: "Invalid uid: 1 "},
	{args: "--uid - true", err: "Invalid uid: -"},
	{args: "--uid + true", err: "Invalid uid: +"},
	{args: "--uid · true", err: "Invalid uid:  "},
	{args: "--gid one true", err: "Invalid gid: one"},
	{args: "--unshare-user --uid ··+010 true", want: userID(10)},
	{args: "--unshare-user --uid -0 true", want: userID(0)},
	{args: "--unshare-user --uid 2147483647 true", want: userID(2147483647)},
	{args: "--unshare-user --uid 2147483648 true", err: "Invalid uid: 2147483648"},
	{args: "--unshare-user --uid 4294967295 true", err: "Invalid uid: 4294967295"},
	{args: "--unshare-user --uid 4294967296 true", want: userID(0)},
	{args: "--unshare-user --uid 4294967301 true", want: userID(5)},
	{args: "--unshare-user --uid -4294967291 true", want: userID(5)},
	{args: "--unshare-user --uid 9223372036854775807 true", err: "Invalid uid: 9223372036854775807"},
	{args: "--unshare-user --uid 99999999999999999999 true", err: "Invalid uid: 99999999999999999999"},
	{args: "--unshare-user --uid -9223372036854775808 true", want: userID(0)},
	{args: "--unshare-user --uid -99999999999999999999 true", want: userID(0)},
	{args: "--unshare-uts --hostname h true", want: func(c *Config) { c.UnshareUTS = true; c.Ops = []SetupOp{op(OpHostname, "", "h")} }},
	{args: "--hostname h true", err: "Specifying --hostname requires --unshare-uts"},
	{args: "--hostname '' true", err: "Specifying --hostname requires --unshare-uts"},
	{args: "--unshare-uts --hostname a --tmpfs /t --hostname b true", warn: "--hostname", want: func(c *Config) {
		c.UnshareUTS = true
		c.Ops = []SetupOp{op(OpHostname, "", "a"), op(OpTmpfs, "", "/t").def(0o755), op(OpHostname, "", "b")}
	}},

	// Environment.
	{args: "--setenv A 1 true", want: envs(EnvOp{EnvSet, "A", "1"})},
	{args: "--setenv A '' true", want: envs(EnvOp{EnvSet, "A", ""})},
	{args: "--setenv A b=c --unsetenv B --clearenv --setenv A 2 true", want: envs(EnvOp{EnvSet, "A", "b=c"}, EnvOp{EnvUnset, "B", ""}, EnvOp{Kind: EnvClear}, EnvOp{EnvSet, "A", "2"})},
	{args: "--setenv '' 1 true", err: "setenv failed"},
	{args: "--setenv A=B 1 true", err: "setenv failed"},
	{args: "--setenv = 1 true", err: "setenv failed"},
	{args: "--unsetenv '' true", err: "unsetenv failed"},
	{args: "--unsetenv A= true", err: "unsetenv failed"},

	// Mounts.
	{args: "--bind /a /b true", want: ops(op(OpBind, "/a", "/b"))},
	{args: "--bind-try /a /b true", want: ops(op(OpBind, "/a", "/b").try())},
	{args: "--ro-bind /a /b --ro-bind-try c d true", want: ops(op(OpROBind, "/a", "/b"), op(OpROBind, "c", "d").try())},
	{args: "--dev-bind / / --dev-bind-try c d true", want: ops(op(OpDevBind, "/", "/"), op(OpDevBind, "c", "d").try())},
	{args: "--bind '' '' true", want: ops(op(OpBind, "", ""))},
	{args: "--bind-fd 3 /b --ro-bind-fd 4 /c true", want: ops(opFD(OpBindFD, 3, "/b"), opFD(OpROBindFD, 4, "/c"))},
	{args: "--bind-fd x /b true", err: "Invalid fd: x"},
	{args: "--ro-bind-fd -1 /b true", err: "Invalid fd: -1"},
	{args: "--ro-bind-fd '' /b true", err: "Invalid fd: "},
	{args: "--bind-fd 4294967299 /b true", want: ops(opFD(OpBindFD, 3, "/b"))},
	{args: "--proc /proc --dev /dev --mqueue /q --remount-ro / true", want: ops(op(OpProc, "", "/proc"), op(OpDev, "", "/dev"), op(OpMqueue, "", "/q"), op(OpRemountRO, "", "/"))},
	{args: "--tmpfs / true", want: ops(op(OpTmpfs, "", "/").def(0o755))},
	{args: "--tmpfs --bogus true", want: ops(op(OpTmpfs, "", "--bogus").def(0o755))},

	// Overlays.
	{args: "--overlay-src a --tmp-overlay d true", want: ops(op(OpTmpOverlay, "", "d").layers("a"))},
	{args: "--overlay-src a --overlay-src b --overlay-src c --overlay up work d true", want: ops(op(OpOverlay, "up", "d").work("work").layers("c", "b", "a"))},
	{args: "--overlay-src a --overlay-src b --ro-overlay d --tmpfs t true", want: ops(op(OpROOverlay, "", "d").layers("b", "a"), op(OpTmpfs, "", "t").def(0o755))},
	{args: "--overlay up work d true", err: "--overlay requires at least one --overlay-src"},
	{args: "--tmp-overlay d true", err: "--tmp-overlay requires at least one --overlay-src"},
	{args: "--ro-overlay d true", err: "--ro-overlay requires at least two --overlay-src"},
	{args: "--overlay-src a --ro-overlay d true", err: "--ro-overlay requires at least two --overlay-src"},
	{args: "--overlay-src a --tmp-overlay d --tmp-overlay e true", err: "--tmp-overlay requires at least one --overlay-src"},
	{args: "--overlay-src a true", err: layersTail},
	{args: "--overlay-src a -- true", err: layersTail},
	{args: "--overlay-src a", err: layersTail},
	{args: "--overlay-src a --tmpfs d true", err: layersTail},
	{args: "--overlay-src a --unshare-pid --tmp-overlay d true", err: layersTail},
	{args: "--overlay-src a --perms 0700 --tmp-overlay d true", err: layersTail},
	{args: "--overlay-src a --bogus true", err: "Unknown option --bogus"},
	{args: "--overlay-src --overlay-src --overlay-src a --ro-overlay d true", want: ops(op(OpROOverlay, "", "d").layers("a", "--overlay-src"))},
	{args: "--overlay-src '' --tmp-overlay d true", want: ops(op(OpTmpOverlay, "", "d").layers(""))},

	// Files.
	{args: "--dir /d true", want: ops(op(OpDir, "", "/d").def(0o755))},
	{args: "--file 3 /f --bind-data 4 /g --ro-bind-data 5 /h true", want: ops(opFD(OpFile, 3, "/f").def(0o666), opFD(OpBindData, 4, "/g").def(0o600), opFD(OpROBindData, 5, "/h").def(0o600))},
	{args: "--file x /f true", err: "Invalid fd: x"},
	{args: "--bind-data -2 /f true", err: "Invalid fd: -2"},
	{args: "--ro-bind-data 1.5 /f true", err: "Invalid fd: 1.5"},
	{args: "--symlink target /l true", want: ops(op(OpSymlink, "target", "/l"))},
	{args: "--chmod 0700 /d true", want: ops(op(OpChmod, "", "/d").perms(0o700))},
	{args: "--chmod 7777 /d --chmod 0 /d true", want: ops(op(OpChmod, "", "/d").perms(0o7777), op(OpChmod, "", "/d").perms(0))},
	{args: "--chmod 10000 /d true", err: octalChmod},
	{args: "--chmod u+x /d true", err: octalChmod},
	{args: "--chmod '' /d true", err: octalChmod},
	{args: "--chmod 08 /d true", err: octalChmod},

	// --perms and --size.
	{args: "--perms 0700 --dir /d --dir /e true", want: ops(op(OpDir, "", "/d").perms(0o700), op(OpDir, "", "/e").def(0o755))},
	{args: "--perms 1777 --tmpfs /d true", want: ops(op(OpTmpfs, "", "/d").perms(0o1777))},
	{args: "--perms 0 --file 3 /f true", want: ops(opFD(OpFile, 3, "/f").perms(0))},
	{args: "--perms 644 --bind-data 3 /f true", want: ops(opFD(OpBindData, 3, "/f").perms(0o644))},
	{args: "--perms ·+644 --ro-bind-data 3 /f true", want: ops(opFD(OpROBindData, 3, "/f").perms(0o644))},
	{args: "--perms -0 --dir /d true", want: ops(op(OpDir, "", "/d").perms(0))},
	{args: "--perms -1777777777777777777001 --dir /d true", want: ops(op(OpDir, "", "/d").perms(0o777))},
	{args: "--perms -1 --dir /d true", err: octalPerms},
	{args: "--perms 10000 --dir /d true", err: octalPerms},
	{args: "--perms 0x1 --dir /d true", err: octalPerms},
	{args: "--perms 0o700 --dir /d true", err: octalPerms},
	{args: "--perms 789 --dir /d true", err: octalPerms},
	{args: "--perms '' --dir /d true", err: octalPerms},
	{args: "--perms 700· --dir /d true", err: octalPerms},
	{args: "--perms 99999999999999999999999 --dir /d true", err: octalPerms},
	{args: "--perms 77777777777777777777777 --dir /d true", err: octalPerms},
	{args: "--perms -77777777777777777777777 --dir /d true", err: octalPerms},
	{args: "--perms 0700 --perms 0700 --dir /d true", err: "--perms given twice for the same action"},
	{args: "--perms 0700 --perms x", err: "--perms given twice for the same action"},
	{args: "--perms 0700 --bind a b true", err: permsTail},
	{args: "--perms 0700 --bind a", err: "--bind takes two arguments"},
	{args: "--perms 0700 --bind-fd x /b true", err: "Invalid fd: x"},
	{args: "--perms 0700 --symlink a b true", err: permsTail},
	{args: "--perms 0700 --chmod 0700 b true", err: permsTail},
	{args: "--perms 0700 --proc /p true", err: permsTail},
	{args: "--perms 0700 --unshare-pid --dir /d true", err: permsTail},
	{args: "--perms 0700 --bogus true", err: "Unknown option --bogus"},
	{args: "--perms 0700 true"},
	{args: "--perms 0700 -- true"},
	{args: "--perms 0700", err: stopNothing},
	{args: "--size 4096 true"},
	{args: "--size 4096 --tmpfs /d --tmpfs /e true", want: ops(op(OpTmpfs, "", "/d").def(0o755).size(4096), op(OpTmpfs, "", "/e").def(0o755))},
	{args: "--size 4096 --perms 0700 --tmpfs /d true", want: ops(op(OpTmpfs, "", "/d").perms(0o700).size(4096))},
	{args: "--perms 0700 --size 4096 --tmpfs /d true", want: ops(op(OpTmpfs, "", "/d").perms(0o700).size(4096))},
	{args: "--size 0x1000 --tmpfs /d true", want: ops(op(OpTmpfs, "", "/d").def(0o755).size(4096))},
	{args: "--size 010 --tmpfs /d true", want: ops(op(OpTmpfs, "", "/d").def(0o755).size(8))},
	{args: "--size 0b101 --tmpfs /d true", notReal: "depends on the C library it was built with", want: ops(op(OpTmpfs, "", "/d").def(0o755).size(5))},
	{args: "--size 9223372036854775807 --tmpfs /d true", want: ops(op(OpTmpfs, "", "/d").def(0o755).size(9223372036854775807))},
	{args: "--size 9223372036854775808 --tmpfs /d true", err: "--size (for tmpfs) is limited to 9223372036854775807"},
	{args: "--size 18446744073709551615 --tmpfs /d true", err: "--size (for tmpfs) is limited to 9223372036854775807"},
	{args: "--size 18446744073709551616 --tmpfs /d true", err: zeroSize},
	{args: "--size 0 --tmpfs /d true", err: zeroSize},
	{args: "--size 00 --tmpfs /d true", err: zeroSize},
	{args: "--size 0x --tmpfs /d true", err: zeroSize},
	{args: "--size 0b --tmpfs /d true", err: zeroSize},
	{args: "--size 08 --tmpfs /d true", err: zeroSize},
	{args: "--size '' --tmpfs /d true", err: zeroSize},
	{args: "--size -1 --tmpfs /d true", err: zeroSize},
	{args: "--size +1 --tmpfs /d true", err: zeroSize},
	{args: "--size ·1 --tmpfs /d true", err: zeroSize},
	{args: "--size 1M --tmpfs /d true", err: zeroSize},
	{args: "--size 1 --size 1 --tmpfs /d true", err: "--size given twice for the same action"},
	{args: "--size 1 --dir /d true", err: sizeTail},
	{args: "--size 1 --perms 0700 --dir /d true", err: sizeTail},
	{args: "--size 1 --perms 0700 --proc /d true", err: permsTail},
	{args: "--size 1 --overlay-src a", err: sizeTail},

	// Process.
	{args: "--argv0 x true", want: func(c *Config) { c.Argv0 = some("x") }},
	{args: "--argv0 '' true", want: func(c *Config) { c.Argv0 = some("") }},
	{args: "--argv0 x --argv0 x true", err: "--argv0 used multiple times"},
	{args: "--argv0 '' --argv0 '' true", err: "--argv0 used multiple times"},
	{args: "--argv0 x --argv0", err: "--argv0 takes one argument"},
	{args: "--chdir d true", want: func(c *Config) { c.Chdir = some("d") }},
	{args: "--chdir '' --chdir e true", warn: "--chdir", want: func(c *Config) { c.Chdir = some("e") }},
	{args: "--new-session --die-with-parent true", want: func(c *Config) { c.NewSession, c.DieWithParent = true, true }},
	{args: "--unshare-pid --as-pid-1 true", want: func(c *Config) { c.UnsharePID, c.AsPID1 = true, true }},
	{args: "--as-pid-1 true", err: "Specifying --as-pid-1 requires --unshare-pid"},
	{args: "--as-pid-1 --pidns 3 true", err: "Specifying --as-pid-1 requires --unshare-pid"},
	{args: "--as-pid-1 --unshare-pid --lock-file f true", err: "Specifying --as-pid-1 and --lock-file is not permitted"},
	{args: "--lock-file a --lock-file b true", want: func(c *Config) { c.LockFiles = []string{"a", "b"} }},

	// Messages with their severity.
	{args: "--level-prefix true", want: func(c *Config) { c.LevelPrefix = true }},
	{args: "--level-prefix --bogus", err: "Unknown option --bogus", want: func(c *Config) { c.LevelPrefix = true }},
	{args: "--bogus --level-prefix", err: "Unknown option --bogus"},
	{args: "--chdir a --chdir b --level-prefix --chdir c true", warn: "--chdir <--chdir", want: func(c *Config) { c.LevelPrefix = true; c.Chdir = some("c") }},
	{args: "--level-prefix --as-pid-1 true", err: "Specifying --as-pid-1 requires --unshare-pid", want: func(c *Config) { c.LevelPrefix, c.AsPID1 = true, true }},

	// Capabilities.
	{args: "--cap-add CAP_KILL true", want: caps(1 << 5)},
	{args: "--cap-add cap_kill --cap-add Cap_Chown true", want: caps(1<<5 | 1)},
	{args: "--cap-add 5 --cap-add 0x6 --cap-add 07 true", want: caps(1<<5 | 1<<6 | 1<<7)},
	{args: "--cap-add 63 true", want: caps(1 << 63)},
	{args: "--cap-add cap_checkpoint_restore true", want: caps(1 << 40)},
	{args: "--cap-add ALL --cap-drop CAP_BPF true", want: caps(^uint64(0) &^ (1 << 39))},
	{args: "--cap-add all true", want: caps(^uint64(0))},
	{args: "--cap-drop All --cap-add cap_kill true", want: caps(1 << 5)},
	{args: "--cap-add cap_kill --cap-drop ALL true", want: caps(0)},
	{args: "--cap-add cap_kill --cap-drop ALL true", env: func(e *Env) { e.Caps = 7 }, want: caps(0)},
	{args: "--cap-drop cap_chown true", env: func(e *Env) { e.Caps = 7 }, want: caps(6)},
	{args: "true", env: func(e *Env) { e.Caps = 7 }, want: func(c *Config) { c.Caps = 7 }},
	{args: "--cap-add 5 true", env: func(e *Env) { user(e); e.Caps = 7 }, want: func(c *Config) {
		caps(1 << 5)(c)
		c.UnshareUser = true
		c.UID.Value, c.GID.Value = 1000, 1001
	}},
	{args: "--cap-add kill true", err: "unknown cap: kill"},
	{args: "--cap-add CAP_5 true", err: "unknown cap: CAP_5"},
	{args: "--cap-add '' true", err: "unknown cap: "},
	{args: "--cap-add cap_ true", err: "unknown cap: cap_"},
	{args: "--cap-add 64 true", err: "unknown cap: 64"},
	{args: "--cap-add 99999999999999999999 true", err: "unknown cap: 99999999999999999999"},
	{args: "--cap-add -1 true", err: "unknown cap: -1"},
	{args: "--cap-add ·5 true", err: "unknown cap:  5"},
	{args: "--cap-add ALL· true", err: "unknown cap: ALL "},
	{args: "--cap-drop cap_nonsense true", err: "unknown cap: cap_nonsense"},
	{args: "--cap-add 5x true", want: caps(1 << 5)},
	{args: "--cap-add 08 true", want: caps(1)},
	{args: "--cap-add 0xz true", want: caps(1)},
	{args: "--cap-add cap_kill,foo true", want: caps(1 << 5)},
	{args: "--cap-add cap_kill5 true", want: caps(1 << 5)},
	{args: "--cap-add cap_kill_ true", err: "unknown cap: cap_kill_"},

	// Seccomp.
	{args: "--seccomp 3 true", want: func(c *Config) { c.Seccomp = some(3) }},
	{args: "--seccomp 3 --seccomp 4 true", warn: "--seccomp", want: func(c *Config) { c.Seccomp = some(4) }},
	{args: "--add-seccomp-fd 3 --add-seccomp-fd 4 true", fds: []string{"12345678", "1234567812345678"}, want: func(c *Config) {
		c.Filters = []Filter{{Data: []byte("12345678")}, {Data: []byte("1234567812345678")}}
	}},
	{args: "--add-seccomp-fd 3 true", fds: []string{""}, want: func(c *Config) { c.Filters = []Filter{{Data: []byte{}}} }},
	{args: "--add-seccomp-fd 3 true", fds: []string{"1234567"}, err: "Invalid seccomp data, must be multiple of 8"},
	{args: "--add-seccomp-fd 3 true", err: "Can't read seccomp data: Bad file descriptor"},
	{args: "--add-seccomp-fd 3 --add-seccomp-fd 3 true", fds: []string{"12345678"}, err: "Can't read seccomp data: Bad file descriptor"},
	{args: "--add-seccomp-fd x true", err: "Invalid fd: x"},
	{args: "--seccomp x true", err: "Invalid fd: x"},
	{args: "--add-seccomp-fd 3 --seccomp 4 true", fds: []string{"12345678"}, err: "--seccomp cannot be combined with --add-seccomp-fd"},
	{args: "--add-seccomp-fd 3 --seccomp x true", fds: []string{"12345678"}, err: "--seccomp cannot be combined with --add-seccomp-fd"},
	{args: "--seccomp 3 --add-seccomp-fd 4 true", err: "--add-seccomp-fd cannot be combined with --seccomp"},
	{args: "--seccomp 3 --add-seccomp-fd x true", err: "--add-seccomp-fd cannot be combined with --seccomp"},

	// Labels.
	{args: "--exec-label x true", err: noLabels},
	{args: "--file-label x true", err: noLabels},
	{args: "--exec-label x true", env: labels, want: func(c *Config) { c.ExecLabel = some("x") }},
	{args: "--exec-label x --exec-label y --file-label z true", env: labels, warn: "--exec-label", want: func(c *Config) { c.ExecLabel, c.FileLabel = some("y"), some("z") }},
	{args: "--file-label a --file-label b true", env: labels, warn: "--file-label", want: func(c *Config) { c.FileLabel = some("b") }},
	{args: "--file-label bad true", env: labels, err: "invalid label bad: Invalid argument"},

	// Descriptors.
	{args: "--sync-fd 3 --block-fd 4 --info-fd 5 --json-status-fd 6 true", want: func(c *Config) {
		c.SyncFD, c.BlockFD, c.InfoFD, c.JSONStatusFD = some(3), some(4), some(5), some(6)
	}},
	{args: "--sync-fd 0 --sync-fd 0 true", warn: "--sync-fd", want: func(c *Config) { c.SyncFD = some(0) }},
	{args: "--block-fd 1 --block-fd 2 true", warn: "--block-fd", want: func(c *Config) { c.BlockFD = some(2) }},
	{args: "--info-fd 1 --info-fd 2 true", warn: "--info-fd", want: func(c *Config) { c.InfoFD = some(2) }},
	{args: "--info-fd 1 --info-fd x true", warn: "--info-fd", err: "Invalid fd: x"},
	{args: "--json-status-fd 1 --json-status-fd 2 --json-status-fd 3 true", warn: "--json-status-fd --json-status-fd", want: func(c *Config) { c.JSONStatusFD = some(3) }},
	{args: "--unshare-user --info-fd 3 --userns-block-fd 4 --userns-block-fd 5 true", warn: "--userns-block-fd", want: func(c *Config) {
		c.UnshareUser, c.InfoFD, c.UsernsBlockFD = true, some(3), some(5)
	}},
	{args: "--userns-block-fd 3 --info-fd 4 true", err: "--userns-block-fd requires --unshare-user"},
	{args: "--userns-block-fd 3 --info-fd 4 true", env: user, err: "--userns-block-fd requires --unshare-user"},
	{args: "--unshare-user --userns-block-fd 3 true", err: "--userns-block-fd requires --info-fd"},
	{args: "--unshare-user-try --userns-block-fd 3 true", err: "--userns-block-fd requires --unshare-user"},
	{args: "--sync-fd -1 true", err: "Invalid fd: -1"},
	{args: "--sync-fd 99999999999 true", want: func(c *Config) { c.SyncFD = some(1215752191) }},
	{args: "--block-fd 2147483648 true", err: "Invalid fd: 2147483648"},
	{args: "--userns '' true", err: "Invalid fd: "},
	{args: "--pidns 3,4 true", err: "Invalid fd: 3,4"},

	// Odds and ends.
	{args: "--not-a-security-boundary true", want: func(c *Config) { c.NotASecurityBoundary = true }},
	{args: "--debug-opt=force-openat-fallback true", want: func(c *Config) { c.ForceOpenatFallback = true }},
	{args: "--debug-opt=x true", err: "Unknown --debug-opt value: x"},
	{args: "--debug-opt= true", err: "Unknown --debug-opt value: "},
	{args: "--debug-opt x true", err: "Unknown option --debug-opt"},
	{args: "--perms 0700 --debug-opt=force-openat-fallback true", err: permsTail},

	// --args.
	{args: "--args 3 true", fds: []string{"--unshare-pid,--bind,a,b,"}, want: func(c *Config) { c.UnsharePID = true; c.Ops = []SetupOp{op(OpBind, "a", "b")} }},
	{args: "--args 3 true", fds: []string{"--unshare-pid"}, want: func(c *Config) { c.UnsharePID = true }},
	{args: "--args 3 true", fds: []string{""}},
	{args: "--args 3 true", fds: []string{","}},
	{args: "--args 3 true", fds: []string{"--tmpfs,,"}, want: ops(op(OpTmpfs, "", "").def(0o755))},
	{args: "--args 3 true", fds: []string{"--tmpfs,"}, err: "--tmpfs takes an argument"},
	{args: "--args 3 true", fds: []string{"--chdir,a\nb"}, want: func(c *Config) { c.Chdir = some("a\nb") }},
	{args: "--dir a --args 3 --dir d true", fds: []string{"--dir,b,--dir,c"}, want: ops(op(OpDir, "", "a").def(0o755), op(OpDir, "", "b").def(0o755), op(OpDir, "", "c").def(0o755), op(OpDir, "", "d").def(0o755))},
	{args: "--args 3 --args 4 true", fds: []string{"--unshare-pid", "--unshare-ipc"}, want: func(c *Config) { c.UnsharePID, c.UnshareIPC = true, true }},
	{args: "--args 3 --args 3 true", fds: []string{"--unshare-pid"}, err: badFile, want: func(c *Config) { c.UnsharePID = true }},
	{args: "--args 3 true", err: badFile},
	{args: "--args x true", err: "Invalid fd: x"},
	{args: "--args 3 true", fds: []string{"--args,4"}, err: "--args not supported in arguments file"},
	{args: "--args 3 true", fds: []string{"--args"}, err: "--args not supported in arguments file"},
	{args: "--args 3 true", fds: []string{"--unshare-pid,--,--bogus"}, want: func(c *Config) { c.UnsharePID = true }},
	{args: "--args 3 true", fds: []string{"--unshare-pid,cmd,--bogus"}, want: func(c *Config) { c.UnsharePID = true }},
	{args: "--args 3", fds: []string{"--unshare-pid,cmd"}, err: stopNothing, want: func(c *Config) { c.UnsharePID = true }},
	{args: "--args 3 -- true", fds: []string{"cmd"}},
	{args: "--args 3 true", fds: []string{"--bogus"}, err: "Unknown option --bogus"},
	{args: "--args 3 true", fds: []string{"--help"}, err: stopHelp},
	{args: "--args 3 true", fds: []string{"--version"}, err: stopVersion},
	{args: "--args 3 true", fds: []string{"--bind,a"}, err: "--bind takes two arguments"},
	{args: "--args 3 b true", fds: []string{"--bind,a"}, err: "--bind takes two arguments"},
	{args: "--args 3 true", fds: []string{"--perms,0700"}, err: permsTail},
	{args: "--args 3 true", fds: []string{"--perms,0700,cmd"}, err: permsTail},
	{args: "--args 3 --dir d true", fds: []string{"--size,1"}, err: sizeTail},
	{args: "--perms 0700 --args 3 true", fds: []string{"--dir,d"}, want: ops(op(OpDir, "", "d").perms(0o700))},
	{args: "--perms 0700 --args 3 true", fds: []string{""}, err: permsTail},
	{args: "--size 7 --args 3 true", fds: []string{"--perms,0700,--tmpfs,d"}, want: ops(op(OpTmpfs, "", "d").perms(0o700).size(7))},
	{args: "--perms 0700 --args 3 true", fds: []string{"--bind,a,b"}, err: permsTail},
	{args: "--args 3 true", fds: []string{"--overlay-src,a,--tmp-overlay,d"}, want: ops(op(OpTmpOverlay, "", "d").layers("a"))},
	{args: "--args 3 --tmp-overlay d true", fds: []string{"--overlay-src,a"}, err: layersTail},
	{args: "--args 3 true", fds: []string{"--overlay-src"}, err: layersTail},
	{args: "--args 3 true", fds: []string{"--overlay-src,a,cmd"}, err: layersTail},
	{args: "--overlay-src a --args 3 true", fds: []string{""}, err: layersTail},
	{args: "--overlay-src a --args 3 true", fds: []string{"--bogus"}, err: "Unknown option --bogus"},
	{args: "--overlay-src a --args 3 true", fds: []string{"--unshare-pid"}, err: layersTail, want: func(c *Config) { c.UnsharePID = true }},
	{args: "--overlay-src a --args 3 true", fds: []string{"--tmp-overlay,d"}, notReal: "reads memory that is not its own", err: layersTail},
	{args: "--chdir a --args 3 true", fds: []string{"--chdir,b"}, warn: "--chdir", want: func(c *Config) { c.Chdir = some("b") }},
	{args: "--args 3 --chdir a true", fds: []string{"--level-prefix,--chdir,b"}, warn: "<--chdir", want: func(c *Config) { c.LevelPrefix = true; c.Chdir = some("a") }},
	{args: "--args 3 --cap-drop all true", fds: []string{"--cap-add,all"}, want: caps(0)},
	{args: "--args 3 true", fds: []string{strings.Repeat(",", 8997)}},
	{args: "--args 3 true", fds: []string{strings.Repeat(",", 8998)}, err: tooMany},
	{args: "--args 3 true", fds: []string{strings.Repeat("--unshare-pid,", 8997)}, want: func(c *Config) { c.UnsharePID = true }},
	{args: "--args 3 true", fds: []string{strings.Repeat(",", 20000)}, err: tooMany},
	{args: "--args 3 --args 4 true", fds: []string{strings.Repeat(",", 5000), strings.Repeat(",", 5000)}, err: tooMany},
	{args: strings.Repeat("--unshare-pid ", 8999) + "true", want: func(c *Config) { c.UnsharePID = true }},
	{args: strings.Repeat("--unshare-pid ", 9000) + "true", err: tooMany},
	{args: "--help " + strings.Repeat("x ", 9000), err: tooMany},
	{args: "true " + strings.Repeat("x ", 9000), err: tooMany},

	// The options of our own, without and with permission.
	{args: "--netns n true", err: "Unknown option --netns"},
	{args: "--forward-signals true", err: "Unknown option --forward-signals"},
	{args: "--uid-map 0:1:1 true", err: "Unknown option --uid-map"},
	{args: "--forward-signals --exit-codes --kill-on-exit --allow-loopback-failure true", env: extensions, want: func(c *Config) {
		c.ForwardSignals, c.ExitCodes, c.KillOnExit, c.AllowLoopbackFailure = true, true, true, true
	}},
	{args: "--netns n true", env: extensions, want: func(c *Config) { c.NetNS = some("n") }},
	{args: "--netns n --netns /m true", env: extensions, warn: "--netns", want: func(c *Config) { c.NetNS = some("/m") }},
	{args: "--netns", env: extensions, err: "--netns takes an argument"},
	{args: "--netns n --unshare-net true", env: extensions, err: "--netns is not compatible with --unshare-net"},
	{args: "--netns n --unshare-all true", env: extensions, want: func(c *Config) { unshareAll(c); c.UnshareNet = false; c.NetNS = some("n") }},
	{args: "--netns n --unshare-net --share-net true", env: extensions, want: func(c *Config) { c.NetNS = some("n") }},
	{args: "--create-mount-points true", env: extensions, want: func(c *Config) { c.CreateMountPoints = true }},
	{args: "--create-mount-points true", err: "Unknown option --create-mount-points"},
	{args: "--overlay-src a --overlay-hide b/c --overlay-submounts --overlay-hide d --ro-overlay e true", env: extensions, want: func(c *Config) {
		ops(op(OpROOverlay, "", "e").layers("a"))(c)
		c.Ops[0].Hide, c.Ops[0].Submounts = []string{"b/c", "d"}, true
	}},
	{args: "--overlay-hide b true", env: extensions, err: msgOverlay},
	{args: "--overlay-submounts --bind / / true", env: extensions, err: msgOverlay},
	{args: "--overlay-src a --overlay-hide /b --tmp-overlay e true", env: extensions, err: "--overlay-hide takes a relative path without . and .., not /b"},
	{args: "--overlay-src a --overlay-hide b/../c --tmp-overlay e true", env: extensions, err: "--overlay-hide takes a relative path without . and .., not b/../c"},
	{args: "--seccomp-file f --seccomp 3 true", env: extensions, want: func(c *Config) { c.Filters = []Filter{{File: "f"}}; c.Seccomp = some(3) }},
	{args: "--seccomp-file f --add-seccomp-fd 3 true", fds: []string{"12345678"}, env: extensions, want: func(c *Config) { c.Filters = []Filter{{File: "f"}, {Data: []byte("12345678")}} }},
	{args: "--unshare-user --uid-map 0:100000:65536 --uid-map 65536:0:1 --gid-map 0:0:4294967295 true", env: extensions, want: func(c *Config) {
		c.UnshareUser = true
		c.UIDMap = []IDMap{{0, 100000, 65536}, {65536, 0, 1}}
		c.GIDMap = []IDMap{{0, 0, 4294967295}}
	}},
	{args: "--uid-map 0:0:1 true", env: extensions, err: "--uid-map requires --unshare-user"},
	{args: "--gid-map 0:0:1 --userns 3 true", env: extensions, err: "--gid-map requires --unshare-user"},
	{args: "--unshare-user --info-fd 3 --userns-block-fd 4 --gid-map 0:0:1 true", env: extensions, err: "--gid-map is not compatible with --userns-block-fd"},
	{args: "--uid-map 0:0 true", env: extensions, err: "--uid-map takes INSIDE:OUTSIDE:COUNT, not 0:0"},
	{args: "--uid-map 0:0: true", env: extensions, err: "--uid-map takes INSIDE:OUTSIDE:COUNT, not 0:0:"},
	{args: "--uid-map 0:0:1: true", env: extensions, err: "--uid-map takes INSIDE:OUTSIDE:COUNT, not 0:0:1:"},
	{args: "--uid-map -1:0:1 true", env: extensions, err: "--uid-map takes INSIDE:OUTSIDE:COUNT, not -1:0:1"},
	{args: "--gid-map ·1:0:1 true", env: extensions, err: "--gid-map takes INSIDE:OUTSIDE:COUNT, not  1:0:1"},
	{args: "--gid-map '' true", env: extensions, err: "--gid-map takes INSIDE:OUTSIDE:COUNT, not "},
	{args: "--uid-map 0:0:0 true", env: extensions, err: "--uid-map: no such range of ids: 0:0:0"},
	{args: "--uid-map 1:0:4294967295 true", env: extensions, err: "--uid-map: no such range of ids: 1:0:4294967295"},
	{args: "--uid-map 0:4294967295:1 true", env: extensions, err: "--uid-map: no such range of ids: 0:4294967295:1"},
	{args: "--uid-map 0:0:99999999999999999999999 true", env: extensions, err: "--uid-map takes INSIDE:OUTSIDE:COUNT, not 0:0:99999999999999999999999"},
	{args: "--unshare-user --uid 2147483648 true", env: extensions, want: userID(2147483648)},
	{args: "--unshare-user --uid 4294967294 true", env: extensions, want: userID(4294967294)},
	{args: "--unshare-user --uid 4294967295 true", env: extensions, err: "Invalid uid: 4294967295"},
	{args: "--unshare-user --uid 4294967296 true", env: extensions, err: "Invalid uid: 4294967296"},
	{args: "--unshare-user --gid 99999999999999999999 true", env: extensions, err: "Invalid gid: 99999999999999999999"},
	{args: "--unshare-user --uid -4294967291 true", env: extensions, err: "Invalid uid: -4294967291"},
	{args: "--unshare-user --uid -0 true", env: extensions, want: userID(0)},
}

func unshareAll(c *Config) {
	c.UnshareIPC, c.UnsharePID, c.UnshareNet, c.UnshareUTS, c.UnshareCgroupTry = true, true, true, true, true
}

func userID(n uint32) func(c *Config) {
	return func(c *Config) { c.UnshareUser = true; c.UID = some(n) }
}

func caps(bits uint64) func(c *Config) {
	return func(c *Config) { c.Caps, c.CapsGiven = bits, true }
}

func labels(e *Env) {
	e.CheckLabel = func(label string) error {
		if label == "bad" {
			return syscall.EINVAL
		}
		return nil
	}
}
