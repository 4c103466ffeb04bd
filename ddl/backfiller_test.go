package ddl

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/encode"
	"fastddl/ddl/job"
	"fastddl/kv"
)

// TestDamageIsPermanent: what the store has taken in beside the units stays until the index's range is deleted. Files that
// were not imported have been written once more by the build. The error of the file may have keys.
func TestDamageIsPermanent(t *testing.T) {
	for _, imported := range []bool{false, true} {
		damaged := &kv.DamagedUnitError{File: "import-1.sst", Imported: imported, Err: errors.New("its first key is 01")}
		err := (&IndexBackfiller{}).buildError(t.Context(), encode.Task{}, damaged)
		require.ErrorIs(t, err, damaged)
		require.True(t, job.IsPermanent(err))
		require.NotContains(t, job.TextForAll(err), "key")
	}
}
