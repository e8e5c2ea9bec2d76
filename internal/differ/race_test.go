//go:build race

package differ

const raceDetector = true
