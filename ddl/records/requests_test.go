package records

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/ddl/job"
)

// A request is read in full or not at all.
func TestRequestsAreReadInFull(t *testing.T) {
	for text, known := range map[string]bool{
		`{}`: true, `{"request": "cancel"}`: true, `{"alter": {"threads": 2}}`: true,
		`{"alter": {"threads": 2, "nights": 2}}`: false, `{"request": "rewind"}`: false, `{"request": "cancel", "force": true}`: false, `garbage`: false, ``: false,
	} {
		var r RemoteRequest
		err := r.decode([]byte(text))
		if known {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, "does not know the request", text)
	}
	var r RemoteRequest
	require.NoError(t, r.decode([]byte(`{"request": "pause"}`)))
	require.Equal(t, job.RequestPause, r.Request)
}
