package ddl

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestChangefeedOf: every changefeed counts that may take a statement some time, of all versions of TiCDC.
func TestChangefeedOf(t *testing.T) {
	const key = "/tidb/cdc/default/sales/changefeed/info/orders"
	for _, state := range []string{"normal", "running", "pending", "warning", "error", "failed", "stopped", "one of tomorrow's"} {
		require.Equal(t, "default/sales/orders", changefeedOf(key, []byte(`{"state":"`+state+`"}`)), state)
	}
	require.Equal(t, "default/sales/orders", changefeedOf(key, []byte("no JSON")))
	require.Equal(t, "orders", changefeedOf("/tidb/cdc/changefeed/info/orders", []byte("{}")))
	for _, state := range []string{"finished", "removed"} {
		require.Empty(t, changefeedOf(key, []byte(`{"state":"`+state+`"}`)), state)
	}
	for _, other := range []string{
		"/tidb/cdc/default/sales/changefeed/status/orders", "/tidb/cdc/default/__cdc_meta__/capture/1", "/tidb/cdc/meta/version",
		"/tidb/cdc/__backup__/6/changefeed/info/orders", "/tidb/cdc/__backup__/changefeed/info/orders",
	} {
		require.Empty(t, changefeedOf(other, []byte(`{"state":"normal"}`)), other)
	}
}
