//go:build !race

package histories

const raceDetector = false
