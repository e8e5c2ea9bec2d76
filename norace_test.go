//go:build !race

package nsrun_test

const raceEnabled = false
