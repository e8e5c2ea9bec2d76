//go:build race

package nsrun_test

const raceEnabled = true
