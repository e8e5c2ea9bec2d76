package nsrun

// Mode says how a folder appears to commands.
type Mode uint8

const (
	Overlay   Mode = iota // writes are kept apart, in a session
	Direct                // writes go to the folder itself, except to files that git executes or obeys
	ReadOnly              // commands can read it
	Blocked               // a directory cannot be entered, a file cannot be read
	Protected             // for a Rule: changes are held back (Result.Held); where writes go to the file itself, it is read-only
)

var modeNames = [...]string{"overlay", "direct", "read-only", "blocked", "protected"}

// String returns "overlay", "direct", "read-only", "blocked" or "protected".
func (m Mode) String() string { return nameOf(modeNames[:], m, "mode?") }

// A Folder is a directory that commands can use.
type Folder struct {
	// Path is absolute, and must exist. Symbolic links in it are resolved.
	Path string
	// Mode says how commands can use it. Zero: Overlay.
	Mode Mode
}

// A Rule is about paths of the host, whatever folder they lie in, and everything below them. A rule for a directory
// does not show the secrets in it: only a rule that names them does.
type Rule struct {
	// Mode is Direct, ReadOnly, Blocked or, in a Config, Protected. The zero Mode is a mistake.
	Mode Mode
	// Pattern is an absolute path, or a pattern of such paths: "*", "?" and "[…]" as in path.Match, "**" between
	// slashes for any number of directories, "~/" at its beginning and $HOME for the home directory,
	// $XDG_CACHE_HOME, $XDG_CONFIG_HOME, $XDG_DATA_HOME, $XDG_RUNTIME_DIR and $XDG_STATE_HOME, also in braces, and
	// "\" before characters that stand for themselves. Something must exist there, unless Mode is Blocked (it is
	// then hidden when it appears) or Protected (it is then held back; if it is written to in place, it is not
	// protected). "!" before a Pattern makes its paths an exception to the Blocked rules before it. In a Request it
	// is an absolute path.
	Pattern string
}
