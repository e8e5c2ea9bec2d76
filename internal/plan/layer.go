package plan

// A Layer is one row of the table of layers.
type Layer uint8

// The layers, from the lowest to the highest: a mount of one covers mounts at and below its path of those listed
// before.
const (
	HostLayer       Layer = iota // the host, read-only, places of the sandbox's own: /tmp, /run, /dev, /proc, and devices
	CacheLayer                   // caches of build tools, to be thrown away
	SessionLayer                 // folders with an overlay
	InPlaceLayer                 // folders that are written to directly, but for what git executes in them
	ShownLayer                   // read-only folders
	BuildLayer                   // caches that builds write to
	PlaygroundLayer              // the playground, and the home directory with what commands wrote to it
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
