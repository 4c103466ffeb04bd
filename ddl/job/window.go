package job

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fastddl/internal/errs"
)

// Window is the part of each day in which a job works, by the clock of a time zone. The zero Window is always open.
//
// What the zone's rules do to the clock holds for the window: one of 02:15-02:45 does not open on the day on which the clock skips that
// hour, and opens twice on the day on which the hour is repeated.
type Window struct {
	from, to int // seconds since midnight, to exclusive; a window with to < from spans midnight
	zone     *time.Location
}

const (
	day = 24 * 60 * 60
	// mostOpenings is the number of openings that End looks at one by one, longestEnd the latest end that it returns.
	mostOpenings = 4000
	longestEnd   = 100 * 365 * 24 * time.Hour
)

// errWindow says how a window is written.
var errWindow = errors.New("a window is written as '22:00-06:00 Europe/Berlin'")

// ParseWindow reads a window such as '22:00-06:00 Europe/Berlin'. The zone is a name of the IANA database or an offset such as '+02:00',
// and UTC if there is none. Empty text is a window that is always open.
func ParseWindow(text string) (Window, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return Window{}, nil
	}
	times, zone, _ := strings.Cut(text, " ")
	first, last, found := strings.Cut(times, "-")
	from, fromOK := parseClock(first)
	to, toOK := parseClock(last)
	if !found || !fromOK || !toOK || from == day {
		return Window{}, fmt.Errorf("%q: %w", text, errWindow)
	}
	if from == to {
		return Window{}, fmt.Errorf("%q opens and closes at one time: %w", text, errWindow)
	}
	location, err := parseZone(strings.TrimSpace(zone))
	if err != nil {
		return Window{}, fmt.Errorf("%q: %w", text, err)
	}
	return Window{from: from, to: to, zone: location}, nil
}

// parseClock reads a time of day, 00:00 to 24:00, and returns its seconds since midnight.
func parseClock(text string) (seconds int, ok bool) {
	hours, minutes, found := strings.Cut(text, ":")
	h, hOK := digits(hours, 24)
	m, mOK := digits(minutes, 59)
	if !found || !hOK || !mOK || len(minutes) != 2 || h == 24 && m != 0 {
		return 0, false
	}
	return (h*60 + m) * 60, true
}

// digits reads a number of one or two digits up to most.
func digits(text string, most int) (n int, ok bool) {
	if len(text) < 1 || len(text) > 2 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n <= most
}

// parseZone reads the name of a zone or an offset. What it means must not depend on the node that reads it.
func parseZone(text string) (*time.Location, error) {
	switch {
	case text == "" || strings.EqualFold(text, "UTC"):
		return time.UTC, nil
	case strings.EqualFold(text, "Local"), strings.EqualFold(text, "SYSTEM"):
		return nil, fmt.Errorf("time zone %q is another one on each server: name it", text)
	case text[0] == '+' || text[0] == '-':
		seconds, ok := parseClock(text[1:])
		if !ok || seconds > 14*60*60 {
			return nil, fmt.Errorf("%q is no offset such as +02:00", text)
		}
		if text[0] == '-' {
			seconds = -seconds
		}
		return time.FixedZone(text, seconds), nil
	}
	location, err := time.LoadLocation(text)
	if err != nil {
		return nil, fmt.Errorf("time zone: %w", errs.OneLine(err))
	}
	return location, nil
}

// String returns the text that ParseWindow reads.
func (w Window) String() string {
	if w.zone == nil {
		return ""
	}
	clock := func(seconds int) string { return fmt.Sprintf("%02d:%02d", seconds/3600, seconds/60%60) }
	return clock(w.from) + "-" + clock(w.to) + " " + w.zone.String()
}

// Always says that the window never closes.
func (w Window) Always() bool { return w.zone == nil || w.from == 0 && w.to == day }

// Open says whether a job works at a time.
func (w Window) Open(now time.Time) bool {
	if w.Always() {
		return true
	}
	at := w.clock(now) % day
	if w.from < w.to {
		return int64(w.from) <= at && at < int64(w.to)
	}
	return at >= int64(w.from) || at < int64(w.to)
}

// clock returns what the zone's clock shows, in seconds since 1970 began on it.
func (w Window) clock(now time.Time) int64 {
	_, offset := now.In(w.zone).Zone()
	return now.Unix() + int64(offset)
}

// Next returns the next opening of a window that is closed now, or the next closing of one that is open; the zero time if it is always
// open. The result is in the window's time zone.
func (w Window) Next(now time.Time) time.Time {
	if w.Always() {
		return time.Time{}
	}
	open := w.Open(now)
	for at := now; ; {
		at = w.step(at)
		if w.Open(at) != open {
			return at
		}
	}
}

// step returns the first time after now at which the clock shows the beginning or the end of the window, or is set.
func (w Window) step(now time.Time) time.Time {
	shown := w.clock(now)
	next := int64(day)
	for _, edge := range []int{w.from, w.to} {
		ahead := (int64(edge) - shown%day + day) % day
		if ahead == 0 {
			ahead = day
		}
		next = min(next, ahead)
	}
	at := time.Unix(now.Unix()+next, 0).In(w.zone)
	if _, set := now.In(w.zone).ZoneBounds(); !set.IsZero() && set.After(now) && set.Before(at) {
		return set.In(w.zone)
	}
	return at
}

// End returns when work of a duration ends that begins now and is done while the window is open.
func (w Window) End(now time.Time, work time.Duration) time.Time {
	if w.Always() {
		return now.Add(work)
	}
	for range mostOpenings {
		next := w.Next(now)
		if w.Open(now) {
			if left := next.Sub(now); work > left {
				work -= left
			} else {
				return now.Add(work)
			}
		}
		now = next
	}
	perDay := time.Duration((w.to-w.from+day)%day) * time.Second
	return now.Add(time.Duration(min(float64(work)/float64(perDay)*float64(day*time.Second), float64(longestEnd))))
}
