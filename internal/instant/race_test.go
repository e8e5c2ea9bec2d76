//go:build linux && race

package instant

// race says that the race detector is here, which allocates itself.
const race = true
