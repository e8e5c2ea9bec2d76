package bwrap

import "syscall"

// Env is what parsing needs to know besides the words. Its zero value stands for root, without capabilities, on a
// system without user namespaces and SELinux, with all descriptors closed.
type Env struct {
	// UID and GID are the caller's real ids.
	UID, GID uint32
	// Caps are the caller's effective capabilities. They count for root only.
	Caps uint64
	// Extensions allows the options of our own.
	Extensions bool
	// ReadFD reads a descriptor to its end and closes it. It is called while
	// parsing, in the order of the options. Nil: no descriptor is open.
	ReadFD func(fd int) ([]byte, error)
	// UserNamespaces says whether this system has user namespaces, for --unshare-user-try. Nil: it has none.
	UserNamespaces func() bool
	// CheckLabel says whether an SELinux label is valid. Nil: no SELinux here.
	CheckLabel func(label string) error
}

// maxWords limits the words of the command line and of all files together.
const maxWords = 9000

// Parse reads the words that follow the program's name. Without an error there is a command to run. The error is a
// [Stop] or an [*Error]; the Config is never nil and then holds what was read so far: LevelPrefix and Warnings are to
// be respected in any case.
func Parse(args []string, env Env) (*Config, error) {
	p := parser{cfg: new(Config), env: &env, words: len(args)}
	if len(args) == 0 {
		return p.cfg, StopNoCommand
	}
	if env.UID == 0 {
		p.cfg.Caps = env.Caps
	}
	command, err := p.parse(args, false)
	if err != nil {
		return p.cfg, err
	}
	if err := p.finish(command); err != nil {
		return p.cfg, err
	}
	return p.cfg, nil
}

// Room is memory for parsing without allocating.
type Room struct {
	cfg     Config
	ops     [maxRoomOps]SetupOp
	environ [maxRoomEnviron]EnvOp
}

// Config is what was parsed.
func (r *Room) Config() *Config { return &r.cfg }

const (
	maxRoomOps     = 3000
	maxRoomEnviron = 256
)

// beyond is the error of a command line that cannot be parsed in a Room: for it is
// wrong, has options that need more, or too many.
type beyond struct{}

func (beyond) Error() string { return "beyond what can be parsed without allocating" }

// ParseIn is Parse for where the Go runtime has not started. It knows the options that need nothing but room, and
// returns false for all else, mistakes included. The Room must be zero, and can be used once.
func ParseIn(room *Room, args []string, env *Env) (*Config, bool) {
	p := parser{cfg: &room.cfg, env: env, room: room, words: len(args)}
	p.cfg.Ops, p.cfg.Environ = room.ops[:0], room.environ[:0]
	if env.UID == 0 {
		p.cfg.Caps = env.Caps
	}
	command, err := p.parse(args, false)
	if err != nil || len(command) == 0 || p.finish(command) != nil || p.full {
		return nil, false
	}
	return p.cfg, true
}

// instant says which options can be parsed in a Room.
func (id optionID) instant() bool {
	switch id {
	case optUnshareAll, optShareNet, optUnshareUser, optUnshareIPC, optUnsharePID, optUnshareNet, optUnshareUTS,
		optUnshareCgroup, optUnshareCgroupTry, optUID, optGID, optHostname, optClearenv, optSetenv, optUnsetenv,
		optBind, optBindTry, optROBind, optROBindTry, optDevBind, optDevBindTry, optRemountRO, optProc, optDev,
		optTmpfs, optMqueue, optDir, optSymlink, optChmod, optPerms, optSize, optArgv0, optChdir, optNewSession,
		optDieWithParent, optAsPID1, optKillOnExit, optLevelPrefix, optNotASecurityBoundary:
		return true
	}
	return false
}

// parser is the state while parsing.
type parser struct {
	cfg  *Config
	env  *Env
	room *Room // not nil: nothing may be allocated
	// words counts the words seen, those of files included.
	words int
	// last is the option before this one; options come in runs.
	last *Option

	// What the next option is to use.
	perms  Opt[uint32]
	size   uint64
	layers []string
	hide   []string
	below  bool // --overlay-submounts
	// foreign says that the first of the layers stand before the --args whose file is being read.
	foreign bool

	// What the final checks need and the Config does not say.
	userTry     bool
	netExplicit bool
	hostname    bool
	stacked     bool // --add-seccomp-fd was used
	full        bool // the Room is
}

// fail is the error of a command line that is refused, its text in pieces.
func (p *parser) fail(text ...string) error {
	if p.room != nil {
		return beyond{}
	}
	e := &Error{}
	for _, t := range text {
		e.Text += t
	}
	return e
}

// unknown refuses a word that is not an option.
func (p *parser) unknown(word string) error {
	err := p.fail("Unknown option ", word)
	if e, ok := err.(*Error); ok {
		e.Unknown = word
	}
	return err
}

const (
	msgLayers  = "--overlay-src must be followed by another --overlay-src or one of --overlay, --tmp-overlay, or --ro-overlay"
	msgOverlay = "--overlay-hide and --overlay-submounts must be followed by an overlay"
	msgWords   = "Exceeded maximum number of arguments 9000"
)

// parse reads options up to the first other word, and returns the rest.
func (p *parser) parse(words []string, inFile bool) ([]string, error) {
	if p.words > maxWords {
		return nil, p.fail(msgWords)
	}
	for len(words) > 0 {
		word := words[0]
		if word == "--" {
			words = words[1:]
			break
		}
		if word == "" || word[0] != '-' {
			break
		}
		o := p.last
		if o == nil || o.Name != word {
			if o = lookup(word, p.env.Extensions); o == nil {
				return nil, p.unknown(word)
			}
			p.last = o
		}
		n := o.NArgs()
		if len(words)-1 < n && o.arity != arityNone && (o.id != optArgs || !inFile) {
			if p.room != nil {
				return nil, beyond{}
			}
			return nil, p.fail(o.missing())
		}
		var values []string
		if len(words)-1 >= n {
			values = words[1 : 1+n]
		}
		if err := p.option(o, word, values, inFile); err != nil {
			return nil, err
		}

		// A modifier that the option had no use for.
		modifier := o.id == optPerms || o.id == optSize
		if !modifier && p.perms.Set {
			return nil, p.fail("--perms must be followed by an option that creates a file")
		}
		if !modifier && p.size != 0 {
			return nil, p.fail("--size must be followed by --tmpfs")
		}
		switch o.id {
		case optOverlaySrc, optOverlayHide, optOverlaySubmounts:
		default:
			if p.layers != nil {
				return nil, p.fail(msgLayers)
			}
			if p.hide != nil || p.below {
				return nil, p.fail(msgOverlay)
			}
		}
		words = words[min(1+n, len(words)):]
	}
	if (p.hide != nil || p.below) && !inFile {
		return nil, p.fail(msgOverlay)
	}
	// Layers cannot be left over by a file: the --args that read it complains.
	if p.layers != nil && !inFile {
		return nil, p.fail(msgLayers)
	}
	return words, nil
}

// option applies one option. v has its arguments; their number was checked, unless the option's row turns that off.
// It is long because bubblewrap has many options, and each is one short case.
func (p *parser) option(o *Option, word string, v []string, inFile bool) error {
	c := p.cfg
	if p.room != nil && !o.id.instant() {
		return beyond{}
	}
	switch o.id {
	case optHelp:
		return StopHelp
	case optVersion:
		return StopVersion
	case optArgs:
		if inFile {
			return p.fail("--args not supported in arguments file")
		}
		return p.file(v[0])
	case optLevelPrefix:
		c.LevelPrefix = true

	case optUnshareAll:
		p.userTry = true
		c.UnshareIPC = true
		c.UnsharePID = true
		c.UnshareNet = true
		c.UnshareUTS = true
		c.UnshareCgroupTry = true
	case optShareNet:
		c.UnshareNet = false
		p.netExplicit = false
	case optUnshareUser:
		c.UnshareUser = true
	case optUnshareUserTry:
		p.userTry = true
	case optUnshareIPC:
		c.UnshareIPC = true
	case optUnsharePID:
		c.UnsharePID = true
	case optUnshareNet:
		c.UnshareNet = true
		p.netExplicit = true
	case optUnshareUTS:
		c.UnshareUTS = true
	case optUnshareCgroup:
		c.UnshareCgroup = true
	case optUnshareCgroupTry:
		c.UnshareCgroupTry = true
	case optUserns:
		return p.fd(o, &c.UserNS, v[0])
	case optUserns2:
		return p.fd(o, &c.UserNS2, v[0])
	case optDisableUserns:
		c.DisableUserns = true
	case optAssertUsernsDisabled:
		c.AssertUsernsDisabled = true
	case optPidns:
		return p.fd(o, &c.PIDNS, v[0])
	case optNetns:
		p.text(o, &c.NetNS, v[0])
	case optAllowLoopbackFailure:
		c.AllowLoopbackFailure = true

	case optUID:
		return p.identity(o, &c.UID, v[0], "uid")
	case optGID:
		return p.identity(o, &c.GID, v[0], "gid")
	case optUIDMap:
		m, err := p.parseIDMap(v[0], o.Name)
		c.UIDMap = append(c.UIDMap, m)
		return err
	case optGIDMap:
		m, err := p.parseIDMap(v[0], o.Name)
		c.GIDMap = append(c.GIDMap, m)
		return err
	case optHostname:
		if p.hostname {
			p.warnLast(o)
		}
		p.hostname = true
		p.op(OpHostname, "", v[0])

	case optClearenv:
		p.environ(EnvOp{Kind: EnvClear})
	case optSetenv:
		if !validVar(v[0]) {
			return p.fail("setenv failed")
		}
		p.environ(EnvOp{Kind: EnvSet, Name: v[0], Value: v[1]})
	case optUnsetenv:
		if !validVar(v[0]) {
			return p.fail("unsetenv failed")
		}
		p.environ(EnvOp{Kind: EnvUnset, Name: v[0]})

	case optBind:
		p.op(OpBind, v[0], v[1])
	case optBindTry:
		p.op(OpBind, v[0], v[1]).Try = true
	case optROBind:
		p.op(OpROBind, v[0], v[1])
	case optROBindTry:
		p.op(OpROBind, v[0], v[1]).Try = true
	case optDevBind:
		p.op(OpDevBind, v[0], v[1])
	case optDevBindTry:
		p.op(OpDevBind, v[0], v[1]).Try = true
	case optBindFD:
		return p.opFD(OpBindFD, v)
	case optROBindFD:
		return p.opFD(OpROBindFD, v)
	case optRemountRO:
		p.op(OpRemountRO, "", v[0])
	case optProc:
		p.op(OpProc, "", v[0])
	case optDev:
		p.op(OpDev, "", v[0])
	case optTmpfs:
		op := p.op(OpTmpfs, "", v[0])
		p.takePerms(op, 0o755)
		op.Size = p.size
		p.size = 0
	case optMqueue:
		p.op(OpMqueue, "", v[0])

	case optOverlaySrc:
		source := ""
		if v != nil {
			source = v[0]
		}
		p.layers = append(p.layers, source)
	case optOverlay:
		return p.overlay(o, OpOverlay, v[0], v[1], v[2])
	case optTmpOverlay:
		return p.overlay(o, OpTmpOverlay, "", "", v[0])
	case optOverlayHide:
		if !relative(v[0]) {
			return p.fail("--overlay-hide takes a relative path without . and .., not ", v[0])
		}
		p.hide = append(p.hide, v[0])
	case optOverlaySubmounts:
		p.below = true
	case optCreateMountPoints:
		c.CreateMountPoints = true
	case optROOverlay:
		return p.overlay(o, OpROOverlay, "", "", v[0])

	case optDir:
		p.takePerms(p.op(OpDir, "", v[0]), 0o755)
	case optFile:
		return p.opData(OpFile, v, 0o666)
	case optBindData:
		return p.opData(OpBindData, v, 0o600)
	case optROBindData:
		return p.opData(OpROBindData, v, 0o600)
	case optSymlink:
		p.op(OpSymlink, v[0], v[1])
	case optChmod:
		perms, err := p.parseOctal(v[0], o.Name)
		if err != nil {
			return err
		}
		op := p.op(OpChmod, "", v[1])
		op.Perms, op.HasPerms = perms, true

	case optPerms:
		if p.perms.Set {
			return p.fail("--perms given twice for the same action")
		}
		perms, err := p.parseOctal(v[0], o.Name)
		if err != nil {
			return err
		}
		p.perms = some(perms)
	case optSize:
		if p.size != 0 {
			return p.fail("--size given twice for the same action")
		}
		size, err := p.parseSize(v[0])
		if err != nil {
			return err
		}
		p.size = size

	case optArgv0:
		if c.Argv0.Set {
			return p.fail("--argv0 used multiple times")
		}
		c.Argv0 = some(v[0])
	case optChdir:
		p.text(o, &c.Chdir, v[0])
	case optNewSession:
		c.NewSession = true
	case optDieWithParent:
		c.DieWithParent = true
	case optAsPID1:
		c.AsPID1 = true
	case optLockFile:
		c.LockFiles = append(c.LockFiles, v[0])
	case optForwardSignals:
		c.ForwardSignals = true
	case optExitCodes:
		c.ExitCodes = true
	case optKillOnExit:
		c.KillOnExit = true

	case optCapAdd:
		c.CapsGiven = true
		bits, err := p.parseCap(v[0])
		c.Caps |= bits
		return err
	case optCapDrop:
		c.CapsGiven = true
		bits, err := p.parseCap(v[0])
		c.Caps &^= bits
		return err
	case optSeccomp:
		if p.stacked {
			return p.fail("--seccomp cannot be combined with --add-seccomp-fd")
		}
		return p.fd(o, &c.Seccomp, v[0])
	case optAddSeccompFD:
		return p.filter(v[0])
	case optSeccompFile:
		c.Filters = append(c.Filters, Filter{File: v[0]})
	case optExecLabel:
		return p.label(o, &c.ExecLabel, v[0])
	case optFileLabel:
		return p.label(o, &c.FileLabel, v[0])
	case optNotASecurityBoundary:
		c.NotASecurityBoundary = true

	case optSyncFD:
		return p.fd(o, &c.SyncFD, v[0])
	case optBlockFD:
		return p.fd(o, &c.BlockFD, v[0])
	case optUsernsBlockFD:
		return p.fd(o, &c.UsernsBlockFD, v[0])
	case optInfoFD:
		return p.fd(o, &c.InfoFD, v[0])
	case optJSONStatusFD:
		return p.fd(o, &c.JSONStatusFD, v[0])

	case optDebugOpt:
		if value := word[len(o.Name):]; value != "force-openat-fallback" {
			return p.fail("Unknown --debug-opt value: ", value)
		}
		c.ForceOpenatFallback = true
	}
	return nil
}

// file reads more words from a descriptor and parses them in place. A word that
// is not an option ends the file, and what follows in it is ignored.
func (p *parser) file(number string) error {
	fd, err := p.parseFD(number)
	if err != nil {
		return err
	}
	data, err := p.read(fd)
	if err != nil {
		return &Error{Text: "Can't read --args data", Err: err}
	}
	words, ok := splitWords(string(data), maxWords-p.words)
	if !ok {
		return p.fail(msgWords)
	}
	p.words += len(words)
	p.foreign = p.layers != nil
	_, err = p.parse(words, true)
	p.foreign = false
	return err
}

// splitWords cuts data at NUL bytes, of which the last may be missing. It gives up beyond limit words.
func splitWords(data string, limit int) ([]string, bool) {
	n := countByte(data, 0)
	if data != "" && data[len(data)-1] != 0 {
		n++
	}
	if n > limit {
		return nil, false
	}
	words := make([]string, 0, n)
	for data != "" {
		var word string
		word, data, _ = cut(data, 0)
		words = append(words, word)
	}
	return words, true
}

// read reads and closes a descriptor.
func (p *parser) read(fd int) ([]byte, error) {
	if p.env.ReadFD == nil {
		return nil, syscall.EBADF
	}
	return p.env.ReadFD(fd)
}

// filter reads a seccomp program that can be stacked.
func (p *parser) filter(number string) error {
	if p.cfg.Seccomp.Set {
		return p.fail("--add-seccomp-fd cannot be combined with --seccomp")
	}
	fd, err := p.parseFD(number)
	if err != nil {
		return err
	}
	p.stacked = true
	data, err := p.read(fd)
	if err != nil {
		return &Error{Text: "Can't read seccomp data", Err: err}
	}
	if len(data)%8 != 0 {
		return p.fail("Invalid seccomp data, must be multiple of 8")
	}
	p.cfg.Filters = append(p.cfg.Filters, Filter{Data: data})
	return nil
}

// environ appends a change of the environment.
func (p *parser) environ(op EnvOp) {
	if p.room != nil && len(p.cfg.Environ) == cap(p.cfg.Environ) {
		p.full = true
		return
	}
	p.cfg.Environ = append(p.cfg.Environ, op)
}

// warnLast says that an option was repeated.
func (p *parser) warnLast(o *Option) {
	if !o.LastWins {
		panic("BUG: " + o.Name + " is not marked as an option of which the last one counts")
	}
	if p.room != nil {
		p.full = true
		return
	}
	p.cfg.Warnings = append(p.cfg.Warnings, Warning{
		Text:        "Only the last " + o.Name + " option will take effect",
		LevelPrefix: p.cfg.LevelPrefix,
	})
}
