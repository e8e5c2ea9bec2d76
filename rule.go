package nsrun

// Mode says how a folder appears to commands.
type Mode uint8

// The modes.
const (
	Overlay   Mode = iota // what is written is kept apart, in a session
	Direct                // it is written to, but for what git executes or obeys in it
	ReadOnly              // it is seen as it is
	Blocked               // it cannot be entered, a file not be read
	Protected             // for a Rule: changes of it are held back (Result.Held); where it would be written to in place, it is read-only
)

var modeNames = [...]string{"overlay", "direct", "read-only", "blocked", "protected"}

// String returns "overlay", "direct", "read-only", "blocked" or "protected".
func (m Mode) String() string {
	if int(m) >= len(modeNames) {
		return "mode?"
	}
	return modeNames[m]
}

// A Folder is a directory that commands have.
type Folder struct {
	// Path is absolute, and must exist. Symbolic links in it are resolved.
	Path string
	// Mode says how. Zero: Overlay.
	Mode Mode
}

// A Rule is about paths of the host, whatever folder they lie in, and all below them. A rule for a directory does not show
// the secrets in it: that takes one that names them.
type Rule struct {
	// Mode is Direct, ReadOnly, Blocked or, in a Config, Protected. The zero Mode is a mistake.
	Mode Mode
	// Pattern is an absolute path, or a pattern of such paths: "*", "?" and "[…]" as in path.Match, "**" between slashes for
	// any number of directories, "~/" at its beginning and $HOME for the home directory, $XDG_CACHE_HOME, $XDG_CONFIG_HOME,
	// $XDG_DATA_HOME, $XDG_RUNTIME_DIR and $XDG_STATE_HOME, also in braces, and "\" before characters that stand for
	// themselves. Something must be there, unless Mode is Blocked: then it is hidden when it comes up; or Protected: then it
	// is held back, or where it is written to in place it is not protected. "!" before a Pattern takes paths out of the
	// Blocked rules before it. In a Request it is an absolute path.
	Pattern string
}
