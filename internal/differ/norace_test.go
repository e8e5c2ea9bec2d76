//go:build !race

package differ

const raceDetector = false
