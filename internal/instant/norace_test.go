//go:build linux && !race

package instant

const race = false
