package sql

import (
	"strconv"
	"strings"
	"time"
)

// parseLocation returns the time zone of a value that the variable time_zone
// has accepted: SYSTEM, an offset such as +02:00, or a name.
func parseLocation(name string) *time.Location {
	if strings.EqualFold(name, "SYSTEM") || name == "" {
		return time.Local
	}
	if strings.EqualFold(name, "UTC") {
		return time.UTC
	}
	if seconds, ok := parseOffset(name); ok {
		if seconds == 0 {
			return time.UTC
		}
		return time.FixedZone(name, seconds)
	}
	if loc, err := time.LoadLocation(name); err == nil {
		return loc
	}
	return time.Local
}

// parseOffset reads +hh:mm and -hh:mm.
func parseOffset(s string) (seconds int, ok bool) {
	if len(s) < 2 || s[0] != '+' && s[0] != '-' {
		return 0, false
	}
	hours, minutes, found := strings.Cut(s[1:], ":")
	if !found {
		return 0, false
	}
	h, errH := strconv.Atoi(hours)
	m, errM := strconv.Atoi(minutes)
	if errH != nil || errM != nil {
		return 0, false
	}
	seconds = h*3600 + m*60
	if s[0] == '-' {
		seconds = -seconds
	}
	return seconds, true
}
