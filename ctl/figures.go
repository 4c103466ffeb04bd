package ctl

import (
	"fmt"
	"math"
	"time"
)

// count returns a number for people, in at most five characters up to a thousand billions.
func count(n float64) string {
	for _, unit := range []string{"", "K", "M", "G", "T"} {
		switch {
		case n < 999.5 && (unit == "" || n >= 99.5):
			return fmt.Sprintf("%.0f%s", n, unit)
		case n < 99.5:
			return fmt.Sprintf("%.1f%s", n, unit)
		}
		n /= 1000
	}
	return fmt.Sprintf("%.3gT", n*1000)
}

// size returns a number of bytes for people.
func size(n float64) string {
	for _, unit := range []string{"B", "KiB", "MiB", "GiB", "TiB"} {
		if n < 1024 || unit == "TiB" {
			if unit == "B" {
				return fmt.Sprintf("%.0f B", n)
			}
			return fmt.Sprintf("%.1f %s", n, unit)
		}
		n /= 1024
	}
	return ""
}

// span returns a time for people: 0.4 s, 12 s, 3m10s, 2h5m.
func span(seconds float64) string {
	switch {
	case math.IsNaN(seconds) || seconds < 0 || seconds > 1e8:
		return "?"
	case seconds < 9.95:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 99.5:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 3600:
		return (time.Duration(seconds) * time.Second).String()
	}
	d := time.Duration(seconds) * time.Second
	return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
}
