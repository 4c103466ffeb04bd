package ddl

import (
	"errors"
	"fmt"
	"testing"

	pingcaperrors "github.com/pingcap/errors"
	"github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/stretchr/testify/require"
)

// A commit of which only the store knows the outcome may have queued the job; all others that failed have not.
func TestJobsThatMayBeQueued(t *testing.T) {
	for err, queued := range map[error]bool{
		nil:                             true,
		terror.ErrResultUndetermined:    true,
		errors.New("the store is gone"): false,
		kv.ErrWriteConflict.FastGenByArgs(1, 2, 3, "t", "0x74", "Optimistic"):       false,
		fmt.Errorf("commit: %w", terror.ErrResultUndetermined.FastGen("timed out")): true,
		pingcaperrors.Trace(terror.ErrResultUndetermined.GenWithStack("timed out")): true,
	} {
		require.Equal(t, queued, mayBeQueued(err), "%v", err)
	}
}
