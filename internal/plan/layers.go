package plan

import "github.com/nsrun/nsrun/mounts"

// A Layer is one line of what lies over what.
type Layer uint8

// The layers, from the lowest to the topmost: what is mounted for one covers what is mounted at the same path, or below
// it, for those above this line.
const (
	HostLayer       Layer = iota // the host, read-only, and places of the sandbox's own: /tmp, /run, /dev, /proc
	CacheLayer                   // caches of build tools, to be thrown away
	SessionLayer                 // folders with an overlay
	InPlaceLayer                 // folders that are written to directly, but for what git executes in them
	ShownLayer                   // read-only folders
	BuildLayer                   // caches that builds write to
	PlaygroundLayer              // the playground, and the home directory where that needs a mount point
	BlockedLayer                 // blocked folders
	SecretLayer                  // secrets
	SocketLayer                  // sockets of the host
	RuleLayer                    // the rules of the Config, later ones over earlier ones
	PathLayer                    // the paths that a Request asked for
	UnixLayer                    // sockets of the host that are allowed
	NetworkLayer                 // what commands have instead of the host's resolv.conf
	OwnLayer                     // nsrun's own directories, which no rule opens
	layerCount
)

// layers says what is mounted for each of them.
var layers = [layerCount]func(*building) error{
	HostLayer:       func(b *building) error { return b.add(Base(b.VarTmp, b.Run)...) },
	CacheLayer:      func(b *building) error { return b.add(b.Caches...) },
	SessionLayer:    func(b *building) error { return b.add(b.sessionMounts()...) },
	InPlaceLayer:    func(b *building) error { return b.add(b.InPlace...) },
	ShownLayer:      func(b *building) error { return b.add(b.Shown...) },
	BuildLayer:      func(b *building) error { return b.add(b.Builds...) },
	PlaygroundLayer: (*building).playground,
	BlockedLayer:    func(b *building) error { return b.add(block(b.Folders.Blocked)...) },
	SecretLayer:     func(b *building) error { return b.add(block(b.secrets())...) },
	SocketLayer:     func(b *building) error { return b.add(block(b.sockets())...) },
	RuleLayer:       func(b *building) error { return b.rules(b.Rules, false) },
	PathLayer:       func(b *building) error { return b.rules(b.Paths, true) },
	UnixLayer:       func(b *building) error { return b.add(b.Unix...) },
	NetworkLayer:    func(b *building) error { return b.add(b.network()...) },
	OwnLayer:        (*building).own,
}

// block hides paths.
func block(list []string) (p mounts.Plan) {
	for _, path := range list {
		p = append(p, mounts.Block(path))
	}
	return p
}
