package nsrun

import "errors"

// HomeMode says what becomes of what commands write below the home directory, outside of the folders of a Config.
type HomeMode uint8

const (
	// HomeReadOnly has none of it written: the home directory is read-only, but for the caches of build tools that are
	// there, which are written to for the command alone where it has a folder to write to.
	HomeReadOnly HomeMode = iota
	// HomeLayer keeps it in a layer of the project, outside of the home directory: the project's next commands see it, nothing
	// else does, and no commit contains it. So caches and settings that programs make are there the next time. Commands that run at
	// the same time share it; of a file that two of them wrote, and of the files beside it, the layer keeps the version that was
	// there first. Where the home directory cannot be shown through an overlay a Notice says so, and it is read-only.
	HomeLayer
	homeModes
)

// homeNames are what flags and files call them.
var homeNames = [homeModes]string{HomeReadOnly: "none", HomeLayer: "layer"}

// ParseHome returns the mode of a name: "none" or "layer".
func ParseHome(name string) (HomeMode, error) {
	for i, n := range homeNames {
		if n == name {
			return HomeMode(i), nil
		}
	}
	return 0, errors.New("only layer and none")
}

// String returns the name, as ParseHome takes it.
func (m HomeMode) String() string {
	if m >= homeModes {
		return "home?"
	}
	return homeNames[m]
}

// DefaultHomeSize is how much a home layer has at most after a command, in bytes, if Config.HomeSize is zero.
const DefaultHomeSize = 10 << 30
