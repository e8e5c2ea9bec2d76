//go:build linux && !race

package prerun

const race = false
