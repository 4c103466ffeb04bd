package cluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUniqueOverClusteredKeys: unique indexes are built for all kinds of handles of rows. The store needs the kind to
// decode an entry.
func TestUniqueOverClusteredKeys(t *testing.T) {
	t.Parallel()
	n := startNode(t, anyCluster(t))
	db := n.open()
	for i, table := range []string{
		"id INT PRIMARY KEY CLUSTERED, %s",
		"id INT PRIMARY KEY NONCLUSTERED, %s",
		"id INT, %s, PRIMARY KEY (id, k) CLUSTERED",
		"id INT, %s, PRIMARY KEY (k(2), id) CLUSTERED",
		"id INT, %s, PRIMARY KEY (d, u, id) CLUSTERED",
		"id INT, %s, PRIMARY KEY (id, k) CLUSTERED",
	} {
		name := fmt.Sprintf("t%d", i)
		columns := fmt.Sprintf(table, "u INT NOT NULL, v INT, k VARCHAR(20) COLLATE utf8mb4_general_ci NOT NULL, b VARCHAR(20) COLLATE utf8mb4_bin, d DECIMAL(8, 2)")
		partitions, global := "", ""
		if i == 5 {
			partitions, global = " PARTITION BY HASH (id) PARTITIONS 3", " GLOBAL"
		}
		db.exec(fmt.Sprintf("CREATE TABLE %s (%s)%s", name, columns, partitions))
		db.exec(fmt.Sprintf("INSERT INTO %s (id, u, v, k, b, d) WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 500) "+
			"SELECT n, -n, IF(n %% 5 = 0, NULL, n), CONCAT('Key ', n, IF(n %% 3 = 0, '  ', '')), CONCAT(n, IF(n %% 7 = 0, '  ', 'b')), n / 2 FROM r", name))
		var add []string
		for k, index := range []string{"(u)", "(v)", "(k)", "(k, v)", "(b)", "(v, b)", "(b(4), k)", "(d)", "(d, k(8), u)", "((v + 1))", "(id DESC, k)"} {
			add = append(add, fmt.Sprintf("ADD UNIQUE INDEX i%d %s%s", k, index, global))
		}
		db.exec(fmt.Sprintf("ALTER TABLE %s %s", name, strings.Join(add, ", ")), "ADMIN CHECK TABLE "+name)
		require.Equal(t, "synced", db.lastJob("state"), table)
	}
}
