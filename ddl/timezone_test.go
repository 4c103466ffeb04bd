package ddl

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/ddl/job"
)

func TestTimeZone(t *testing.T) {
	at := time.Date(2024, 7, 1, 12, 0, 0, 0, time.UTC)
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for _, loc := range []*time.Location{time.UTC, time.Local, berlin, time.FixedZone("-03:30", -12600), time.FixedZone("+00:00", 0)} {
		data, err := json.Marshal(timeZoneOf(loc))
		require.NoError(t, err)
		var back job.TimeZone
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, at.In(loc).Format(time.DateTime), at.In(locationOf(back)).Format(time.DateTime), loc)
	}
	require.Equal(t, time.UTC, locationOf(timeZoneOf(nil)))
	require.Equal(t, time.UTC, locationOf(job.TimeZone{Name: "Mars/Olympus"}))
}
