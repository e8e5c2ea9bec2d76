//go:build race

package nsexec_test

const raceEnabled = true
