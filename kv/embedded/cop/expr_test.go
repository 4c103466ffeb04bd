package cop

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPushedAsAtTheRoot compares expressions that are pushed down with the same ones over rows that were read before: what
// TiDB loses when it encodes or decodes them does not show in the answers. unistore is no judge here, since it decodes in the
// same way.
func TestPushedAsAtTheRoot(t *testing.T) {
	s := newSQLSession(t)
	s.exec("SET NAMES utf8mb4 COLLATE utf8mb4_general_ci")
	s.exec("CREATE TABLE w (id INT PRIMARY KEY, v VARCHAR(10), j JSON, a INT, d DATETIME, u INT UNSIGNED)")
	s.exec("INSERT INTO w VALUES (1,'a','1',1,'2020-01-01',1), (2,'a ','0',2,'2021-01-01',2), (3,'A',NULL,3,NULL,3)," +
		" (4,'B','[]',NULL,'2020-01-01',4), (5,'b','0.0',5,'2022-02-02',5), (6,'C','false',6,'2020-01-01',0)")
	for _, q := range []string{
		"SELECT DISTINCT BINARY v AS x FROM %s w ORDER BY x",
		"SELECT BINARY v AS x, COUNT(*) FROM %s w GROUP BY BINARY v ORDER BY x",
		"SELECT id FROM %s w ORDER BY BINARY v LIMIT 3",
		"SELECT MIN(BINARY v), MAX(BINARY v) FROM %s w",
		"SELECT COUNT(DISTINCT BINARY v) FROM %s w",
		"SELECT id FROM %s w WHERE CONCAT(BINARY v, '') = 'a' ORDER BY id",
		"SELECT SUM(NOT j) FROM %s w",
		"SELECT (NOT j) AS x, COUNT(*) FROM %s w GROUP BY x ORDER BY x",
		"SELECT id FROM %s w WHERE IFNULL(NOT j, 1) = 1 ORDER BY id",
		"SELECT id FROM %s w ORDER BY NOT j, id LIMIT 4",
		"SELECT id FROM %s w WHERE d > DATE_SUB(CAST('x' AS DATE), INTERVAL a DAY)",
		"SELECT id FROM %s w WHERE DATE_ADD(CAST(NULL AS DATETIME), INTERVAL a DAY) IS NULL ORDER BY id",
		"SELECT COUNT(DATE_ADD(CAST(NULL AS DATE), INTERVAL a DAY)) FROM %s w",
		"SELECT id FROM %s w WHERE u - 2 < 0 ORDER BY id",
		"SELECT SUM(u - 3) FROM %s w",
	} {
		s.exec("SET sql_mode = CONCAT(@@sql_mode, ',NO_UNSIGNED_SUBTRACTION'), tidb_opt_distinct_agg_push_down = ON")
		want := s.exec(fmt.Sprintf(q, "(SELECT * FROM w ORDER BY id LIMIT 1000000)"))
		require.Equal(t, want, s.exec(fmt.Sprintf(q, "")), q)
	}
}
