package plan

import (
	"io/fs"

	"github.com/nsrun/nsrun/internal/pathrule"
	"github.com/nsrun/nsrun/mounts"
)

// Facts are what Build has to know about the host, the caller and the session. Unless a field says otherwise, paths are
// absolute and free of symbolic links. With the zero Facts, only the host's root is shown.
type Facts struct {
	Home     string      // that commands have, as it is named
	HomeAt   string      // where that is; empty: HomeErr says why nobody knows
	HomeErr  error       // nil: HomeAt is set
	HomePerm fs.FileMode // permission bits and the sticky bit of HomeAt
	HomeWay  []Step      // the symbolic links in Home; nil: there are none

	System     mounts.Plan     // what commands have of the host's programs where Policy.Strict leaves out the rest
	Work       string          // where the workspace is the root, and is written to in place: an empty directory on its mount
	NoDirs     map[string]bool // where the workspace is the root: paths of the host that are mounted, and are not directories
	ResolvConf string          // where the host's resolv.conf(5) is; empty: there is none, or nobody has to know

	Devices     mounts.Plan   // of the host, that commands can use
	Terminal    Terminal      // that the command has from its caller
	VarTmp, Run bool          // whether /var/tmp and /run are directories, not links to others
	Table       []mounts.Info // the host's mounts

	DirWay []Step // the symbolic links in Policy.WorkingDir; nil: there are none
	DirAt  string // where they lead

	Folders   Folders
	Session   *Session    // nil: there is no overlay
	Caches    mounts.Plan // of build tools, writable in a layer of their own
	InPlace   mounts.Plan // folders that are written to directly, with what git executes read-only in them
	Shown     mounts.Plan // read-only folders
	Builds    mounts.Plan // caches that builds write to directly
	Others    []Other     // folders of other users, where root is no more than any user
	Unguarded []string    // why not all that git uses in InPlace is read-only, in words

	Playground Playground

	Layer *HomeLayer // what commands write below the home directory; nil: that is read-only
	Other OtherHome

	Secrets []string // paths that hold secrets
	// SecretDirs are the secrets below the home directory that are directories.
	SecretDirs map[string]bool
	// Texts are the harmless parts of secrets that commands see in their place, by absolute path.
	Texts  []mounts.Text
	Linked []Link   // secrets that symbolic links lead to
	Absent []Absent // names in Home that must not come up
	// HomeModes are modes of the caller's directories in Home that contain such names, parents first.
	HomeModes []mounts.Perm
	Sockets   []string // of the host, that have a file

	Rules, Paths []Rule      // of Config and of Request, in their order
	Unix         mounts.Plan // sockets of the host that commands may connect to
	Network      mounts.Plan // what a network by rules shows

	Own  []Own  // nsrun's own directories, but for the playground
	Kept []Own  // directories of its configuration, which are seen, and which no rule makes writable
	Data string // the one among them that holds playgrounds; empty: there is none

	Env     []string        // this program's
	Present map[string]bool // which of CachePaths are there
}

// Folders are the directories that a Config names, by access.
type Folders struct {
	Overlay  []string // roots of a session
	Direct   []string
	ReadOnly []string
	Blocked  []string
	Project  string // empty: none
	BelowGit bool   // one of Overlay and Direct lies in a git work tree, and is not its top
	NoGit    string // why git cannot write to the project's git directory, in words; empty: it can, or there is none
}

type Session struct {
	Roots    []string
	Mounts   mounts.Plan
	Unmapped []string // roots that belong to a group that the sandbox does not have
}

// A Terminal is the path of a terminal, and the file that must be there. The zero Terminal: there is none.
type Terminal struct {
	Path string
	Same mounts.FileID
}

// An Other is a folder that belongs to another user.
type Other struct {
	Dir string
	UID uint32
}

// A Point is what exists at the playground's place in the home directory.
type Point uint8

const (
	NoPoint    Point = iota // nothing
	DirPoint                // a directory
	OtherPoint              // something else
)

// A Playground is its place on the host, and the mounts that show it.
type Playground struct {
	Err   error         // why there is none; nil: there is
	Dir   string        // as it is named
	At    string        // where it is
	Same  mounts.FileID // zero: it does not exist yet
	Point Point
	// Mirror are the steps that make the mount point without an overlay, with the bind; MirrorErr says why there
	// are none. Both are set only if the home directory cannot have an overlay.
	Mirror    mounts.Plan
	MirrorErr error
}

type HomeLayer struct {
	Upper, Work string   // of this command
	Lower       []string // what commands before it wrote, and is not in Upper: the newest first. Nil: nothing
}

// An OtherHome is the caller's home directory in /etc/passwd if $HOME is another one: some programs do not look at
// $HOME.
type OtherHome struct {
	At    string // without symbolic links
	Perm  fs.FileMode
	Layer *HomeLayer // nil: it is read-only
}

type Link struct {
	Name string
	Way  []Step // the links on the way, in order
}

type Step struct{ Link, To string }

// An Absent is the name of a secret that does not exist in the home directory.
type Absent struct {
	Name string
	From int // how long the first part of it is that is missing
}

type Access = pathrule.Access

const (
	Write   = pathrule.Write
	Show    = pathrule.Show
	Block   = pathrule.Block
	Protect = pathrule.Protect
)

// A Rule is a rule with the paths that it matches.
type Rule struct {
	Access    Access
	Pattern   pathrule.Pattern
	Around    *Around // with Block, of one path; nil: of a pattern
	Found     []Found
	Git       mounts.Plan // what git executes in the directories that it makes writable, read-only
	Unguarded []string    // why not all of that is read-only, in words
}

// An Around describes the surroundings of a hidden path.
type Around struct {
	At      string
	Missing bool           // nothing is there
	Dir     string         // the nearest directory above it that is there
	Dirs    map[string]Dir // that one, and those above it but for "/"
}

type Dir struct {
	Perm fs.FileMode // permission bits and the sticky bit
	Own  bool        // another directory can look like it: it is the caller's, and has no other bits
}

// A Found is one path that a rule matches.
type Found struct {
	At     string
	Bind   mounts.Mount // with Write and Show
	Linked bool         // a symbolic link leads there
	Hidden bool         // it lies in what is hidden, and the rule does not say so
}

type Own struct {
	Dir    string // as it is named
	At     string // where it is; if it is missing, the nearest of its parents
	Copies bool   // it is a directory in the user's cache directory, and can be hidden in there
}

// Writable are the paths of the host that rules and folders make writable in place.
func (f *Facts) Writable() (list []string) {
	add := func(m mounts.Mount) {
		if m.Kind == mounts.KindBind && !m.ReadOnly {
			list = append(list, m.Target)
		}
	}
	for _, m := range f.InPlace {
		add(m)
	}
	for _, rules := range [...][]Rule{f.Rules, f.Paths} {
		for _, r := range rules {
			for _, found := range r.Found {
				add(found.Bind)
			}
		}
	}
	return list
}

// A Policy is what Config and Request say beyond the Facts. The zero Policy allows no network and no playground.
type Policy struct {
	Root           bool // the workspace is the root, and Facts.System is laid over it
	Strict         bool // of the host there is nothing but Facts.System, and what the Facts name beside it
	Playground     bool
	NoHomeOverlay  bool     // no overlay can be laid over the home directory
	HostNetwork    bool     // commands have the host's
	UserNamespaces bool     // commands can make some
	OwnIDs         bool     // root's commands have ids of their own
	Owners         bool     // in the session root's commands have root's rights, and all other ids are their own
	BlockExisting  bool     // what rules hide may come up later and be seen, where that cannot be helped
	WorkingDir     string   // see workingDir
	Temp           string   // the directory for temporary files, where commands run without mounts: see Confine. Empty: /tmp
	ClearEnv       bool     // nothing of Facts.Env is passed on but PATH
	Env            []string // "K=V" and, of Config, "K"; later ones win
}
