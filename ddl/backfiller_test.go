package ddl

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/encode"
	"fastddl/ddl/job"
	"fastddl/kv"
)

// TestTakenInDamageIsPermanent: what the store has taken in beside the units stays until the index's range is deleted. A file
// that was not imported is written again by the next attempt.
func TestTakenInDamageIsPermanent(t *testing.T) {
	for _, imported := range []bool{false, true} {
		damaged := &kv.DamagedUnitError{File: "import-1.sst", Imported: imported, Err: errors.New("damaged")}
		err := (&IndexBackfiller{}).buildError(t.Context(), encode.Task{}, damaged)
		require.ErrorIs(t, err, damaged)
		require.Equal(t, imported, job.IsPermanent(err))
	}
}
