package blackbox

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// A client loads a file that is too large for one transaction of a small server: it is imported, its answer is that of LOAD DATA, and the
// connection is used afterwards. A table that has rows is TiDB's.
func TestLargeLoadDataOverTheProtocol(t *testing.T) {
	n := startNode(t, t.TempDir())
	db := n.open("test")
	db.SetMaxOpenConns(1)
	mustExec(t, db, "SET tidb_mem_quota_query = 8388608") // of which half is for a file
	mustExec(t, db, "CREATE TABLE big (id INT PRIMARY KEY, k INT, s VARCHAR(40), KEY k (k))")
	const rows = 30_000
	mysql.RegisterReaderHandler("big", func() io.Reader {
		var b strings.Builder
		for i := range rows {
			fmt.Fprintf(&b, "%d\t%d\ttext %d\n", i/2*2+i%3/2, i%100, i)
		}
		return strings.NewReader(b.String())
	})
	defer mysql.DeregisterReaderHandler("big")
	result, err := db.Exec("LOAD DATA LOCAL INFILE 'Reader::big' INTO TABLE big")
	require.NoError(t, err)
	warnings := queryAll(t, db, "SELECT @@warning_count")
	affected, err := result.RowsAffected()
	require.NoError(t, err)
	require.Greater(t, affected, int64(rows/2))
	require.Equal(t, fmt.Sprint(rows-affected), warnings[0][0])
	require.Equal(t, fmt.Sprint(affected), queryAll(t, db, "SELECT COUNT(*) FROM big")[0][0])
	mustExec(t, db, "ADMIN CHECK TABLE big")
	require.Len(t, queryAll(t, db, "SHOW IMPORT JOBS"), 1)

	// Where it cannot be imported TiDB loads it, in one transaction, as far as its limits allow.
	mustExec(t, db, "SET tidb_mem_quota_query = 1073741824")
	mustExec(t, db, "LOAD DATA LOCAL INFILE 'Reader::big' REPLACE INTO TABLE big")
	require.Equal(t, fmt.Sprint(affected), queryAll(t, db, "SELECT COUNT(*) FROM big")[0][0])
	mustExec(t, db, "ADMIN CHECK TABLE big")
	require.Len(t, queryAll(t, db, "SHOW IMPORT JOBS"), 1)
}
