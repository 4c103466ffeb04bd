package cluster

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// get returns what the status port answers to root.
func (n *node) get(ctx context.Context, path string) string {
	n.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Status+path, nil)
	require.NoError(n.t, err)
	req.SetBasicAuth("root", os.Getenv("MYSQL_PWD"))
	resp, err := http.DefaultClient.Do(req)
	require.NoError(n.t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(n.t, err)
	require.Equal(n.t, http.StatusOK, resp.StatusCode, "%s: %s", path, body)
	return string(body)
}

// TestStatusPort: what TiDB's HTTP API shows of a cluster.
func TestStatusPort(t *testing.T) {
	t.Parallel()
	n := startNode(t, anyCluster(t))
	db := n.open()
	db.exec("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
	parts := map[string]string{
		"/status":              `"store":"tikv"`,
		"/info":                `"is_owner":true`,
		"/info/all":            `"servers_num":1`,
		"/mvcc/key/DB/t/1":     `"writes"`,
		"/tables/DB/t/regions": `"record_regions"`,
		"/schema/DB/t":         `"name"`,
		"/ddl/history?limit=1": `"table_name"`,
		"/metrics":             "tidb_server_connections",
		"/regions/meta":        `"region_epoch"`,
		"/settings":            `"store":"tikv"`,
	}
	if live != "" { // where there are other servers
		parts["/info"], parts["/info/all"] = `"is_owner"`, `"servers_num"`
	}
	if namesKeyspace(n.path) {
		delete(parts, "/mvcc/key/DB/t/1") // client-go asks for another key (EncodeRequest in internal/apicodec/codec_v2.go)
	}
	for path, part := range parts {
		got := strings.ReplaceAll(n.get(t.Context(), strings.ReplaceAll(path, "DB", n.database)), `": `, `":`)
		if !strings.Contains(got, part) {
			t.Errorf("%s: no %s in %.300s", path, part, got)
		}
	}
}
