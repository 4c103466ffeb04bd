package sql_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEmbeddedStoreHasNoStatusAddress: statements that would ask it say so, and ask no name server.
func TestEmbeddedStoreHasNoStatusAddress(t *testing.T) {
	c := newEnv(t).client()
	require.Empty(t, c.run("SHOW CONFIG WHERE type = 'tikv'"))
	require.Contains(t, strings.Join(c.run("SHOW WARNINGS"), "\n"), "tikv node embedded does not contain status address")
	require.Empty(t, c.run("SELECT * FROM information_schema.cluster_config WHERE type = 'tikv'"))
	require.Contains(t, c.one("SHOW WARNINGS"), "tikv node embedded does not contain status address")
	require.Contains(t, c.fails(1105, "CALIBRATE RESOURCE"), "no server with type 'tikv' is found")
	require.Equal(t, "embedded ", c.one("SELECT instance, status_address FROM information_schema.cluster_info WHERE type = 'tikv'"))
}
