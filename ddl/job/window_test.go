package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

func window(t *testing.T, text string) Window {
	t.Helper()
	w, err := ParseWindow(text)
	require.NoError(t, err)
	return w
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	now, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return now
}

func TestWindowOverMidnight(t *testing.T) {
	w := window(t, "22:00-06:00 Europe/Berlin")
	require.Equal(t, "22:00-06:00 Europe/Berlin", w.String())
	noon := at(t, "2026-01-15T12:00:00+01:00")
	require.False(t, w.Open(noon))
	opens := w.Next(noon)
	require.Equal(t, "2026-01-15T22:00:00+01:00", opens.Format(time.RFC3339))
	require.True(t, w.Open(opens))
	require.False(t, w.Open(opens.Add(-1)))
	closes := w.Next(opens)
	require.Equal(t, "2026-01-16T06:00:00+01:00", closes.Format(time.RFC3339))
	require.False(t, w.Open(closes))
	require.True(t, w.Open(closes.Add(-1)))

	require.Equal(t, opens.Add(time.Hour).Unix(), w.End(noon, time.Hour).Unix())
	require.Equal(t, "2026-01-17T23:00:00+01:00", w.End(noon, 17*time.Hour).Format(time.RFC3339), "two nights and an hour")
	require.Equal(t, closes.Unix(), w.End(noon, 8*time.Hour).Unix())
}

// The clock of the zone decides: a night is an hour shorter or longer when the clock is set, an hour that is skipped does not open a window,
// one that is repeated opens it twice.
func TestWindowWhenTheClockIsSet(t *testing.T) {
	w := window(t, "22:00-06:00 Europe/Berlin")
	for begins, hours := range map[string]float64{
		"2026-03-28T22:00:00+01:00": 7, "2026-10-24T22:00:00+02:00": 9, "2026-10-26T22:00:00+01:00": 8,
	} {
		opens := at(t, begins)
		require.True(t, w.Open(opens))
		require.InDelta(t, hours, w.Next(opens).Sub(opens).Hours(), 0, begins)
	}
	skipped := window(t, "02:15-02:45 Europe/Berlin")
	require.Equal(t, "2026-03-30T02:15:00+02:00", skipped.Next(at(t, "2026-03-28T03:00:00+01:00")).Format(time.RFC3339))
	first := skipped.Next(at(t, "2026-10-24T12:00:00+02:00"))
	require.Equal(t, "2026-10-25T02:15:00+02:00", first.Format(time.RFC3339))
	require.Equal(t, "2026-10-25T02:15:00+01:00", skipped.Next(skipped.Next(first)).Format(time.RFC3339))
	across := window(t, "02:30-04:00 Europe/Berlin") // the clock is set to 03:00, within the window
	require.Equal(t, "2026-03-29T03:00:00+02:00", across.Next(at(t, "2026-03-28T12:00:00+01:00")).Format(time.RFC3339))
}

func TestWindowAlways(t *testing.T) {
	now := at(t, "2026-01-15T12:00:00Z")
	for _, text := range []string{"", "  ", "00:00-24:00 Asia/Tokyo"} {
		w := window(t, text)
		require.True(t, w.Always())
		require.True(t, w.Open(now))
		require.True(t, w.Next(now).IsZero())
		require.Equal(t, now.Add(time.Hour), w.End(now, time.Hour))
	}
	require.Empty(t, Window{}.String())
	require.Equal(t, "09:00-17:30 UTC", window(t, "9:00-17:30").String())
	require.Equal(t, "09:00-17:30 -05:30", window(t, "9:00-17:30 -05:30").String())
	require.True(t, window(t, "23:59-00:00 UTC").End(now, 200*365*24*time.Hour).After(now.AddDate(10, 0, 0)), "an end")
}

func TestWindowsThatAreNone(t *testing.T) {
	for _, text := range []string{
		"22:00", "22-06", "22:00-06:00 Mars/Olympus", "22:00-22:00", "24:00-06:00", "25:00-06:00", "22:60-06:00", "22:00-24:01", "-22:00-06:00",
		"22:00-06:00 Local", "22:00-06:00 SYSTEM", "22:00-06:00 +15:00", "22:00-06:00 +1", "22:00 - 06:00", "22:0-06:00", "a:b-c:d", "22:00-06:00 ../etc/passwd",
		"22:00-06:00 Europe/Berlin x", "022:00-06:00", "+2:00-06:00", "22:00-06:00-07:00", "now",
	} {
		_, err := ParseWindow(text)
		require.Error(t, err, text)
	}
}

// For all windows, zones and times: Next is the first time at which Open changes, looked at minute by minute, and work of End has just the
// duration within openings.
func TestRandomWindows(t *testing.T) {
	rng := randtest.Rand(t)
	zones := []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca", "Pacific/Apia", "UTC", "+05:45", "-09:30"}
	for range 300 {
		w := Window{from: rng.IntN(1440) * 60, to: (1 + rng.IntN(1440)) * 60}
		if w.from == w.to {
			continue
		}
		var err error
		w.zone, err = parseZone(zones[rng.IntN(len(zones))])
		require.NoError(t, err)
		again, err := ParseWindow(w.String())
		require.NoError(t, err)
		require.Equal(t, w.String(), again.String())
		if w.Always() {
			continue
		}
		now := time.Unix(1_700_000_000+rng.Int64N(5*365*day), rng.Int64N(1e9))
		next := w.Next(now)
		require.True(t, next.After(now))
		for minute := now.Truncate(time.Minute).Add(time.Minute); minute.Before(next); minute = minute.Add(time.Minute) {
			require.Equal(t, w.Open(now), w.Open(minute), "%s at %s", w, minute)
		}
		require.NotEqual(t, w.Open(now), w.Open(next), "%s at %s", w, next)

		// What takes more openings is estimated.
		perDay := time.Duration((w.to-w.from+day)%day) * time.Second
		work := time.Duration(rng.Int64N(int64(min(100*time.Hour, perDay*mostOpenings/3))))
		end, done := w.End(now, work), time.Duration(0)
		for from := now; from.Before(end); {
			until := w.Next(from)
			if until.After(end) {
				until = end
			}
			if w.Open(from) {
				done += until.Sub(from)
			}
			from = until
		}
		require.Equal(t, work, done, "%s from %s", w, now)
	}
}
