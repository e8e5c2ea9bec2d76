package nsrun

// HomeMode says what happens to files that commands write below the home directory, outside the folders of a Config.
type HomeMode uint8

const (
	// HomeReadOnly makes the home directory read-only. A command that has a folder to write to can also write to
	// the caches of build tools that exist there; these writes are gone when it ends.
	HomeReadOnly HomeMode = iota
	// HomeLayer keeps the files in a layer of the project, outside the home directory: the project's next commands
	// see them, nothing else does, and no commit contains them. So caches and settings that programs create are
	// there the next time. Commands that run at the same time share the layer; if two of them wrote the same file,
	// the layer keeps the first version of it and of the files beside it. If the home directory cannot be shown
	// through an overlay, a Notice says so, and it is read-only.
	HomeLayer
	homeModes
)

// homeNames are what flags and files call them.
var homeNames = [homeModes]string{HomeReadOnly: "none", HomeLayer: "layer"}

// ParseHome returns the mode of a name: "none" or "layer".
func ParseHome(name string) (HomeMode, error) {
	return named[HomeMode](homeNames[:], name, "the values are layer and none")
}

// String returns the name, as ParseHome takes it.
func (m HomeMode) String() string { return nameOf(homeNames[:], m, "home?") }

// DefaultHomeSize is how much a home layer has at most after a command, in bytes, if Config.HomeSize is zero.
const DefaultHomeSize = 10 << 30
