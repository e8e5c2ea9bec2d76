//go:build !race

package instant

const race = false
