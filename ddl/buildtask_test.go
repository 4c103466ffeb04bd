package ddl

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/ddl/job"
)

// A job is not undone because file descriptors, say, have run out while it looks for its
// time zone.
func TestZoneThatCannotBeRead(t *testing.T) {
	_, unknown := time.LoadLocation("Nowhere/Atlantis")
	require.Error(t, unknown)
	require.True(t, job.IsPermanent(zoneError(unknown)))
	for _, err := range []error{syscall.EMFILE, fmt.Errorf("load: %w", syscall.EIO), &os.PathError{Op: "open", Path: "zone", Err: syscall.EMFILE}} {
		require.False(t, job.IsPermanent(zoneError(err)), "%v", err)
		require.ErrorContains(t, zoneError(err), "time zone of the session")
	}
}
