//go:build linux && race

package prerun

// race says that the race detector is here, which allocates itself.
const race = true
