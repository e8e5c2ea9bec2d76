//go:build linux && !race

package testenv

// RaceDetector says that the tests run under the race detector, several times as slowly.
const RaceDetector = false
