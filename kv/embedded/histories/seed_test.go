package histories

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seedOf seeds a randomised test. It is printed, and FASTDDL_HISTORIES_SEED repeats one.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("FASTDDL_HISTORIES_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("FASTDDL_HISTORIES_SEED=%d", seed)
	return seed
}
