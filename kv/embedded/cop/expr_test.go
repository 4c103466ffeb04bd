package cop

import (
	"fmt"
	"testing"

	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tipb/go-tipb"
	"github.com/stretchr/testify/require"
)

// TestPushedAsAtTheRoot compares expressions that are pushed down with the same ones over rows that were read before: what
// TiDB loses when it encodes or decodes them does not show in the answers. unistore is no judge here, since it decodes in the
// same way. TestRandomlyPushedAsAtTheRoot looks for more.
func TestPushedAsAtTheRoot(t *testing.T) {
	s := newSQLSession(t)
	s.exec("SET NAMES utf8mb4 COLLATE utf8mb4_general_ci")
	s.exec("CREATE TABLE w (id INT PRIMARY KEY, v VARCHAR(10), j JSON, a INT, d DATETIME, u INT UNSIGNED," +
		" tm TIME(2), f FLOAT, b BIT(8), b64 BIT(64), bi VARBINARY(5), e ENUM('x', 'y') DEFAULT 'y')")
	s.exec("INSERT INTO w (id,v,j,a,d,u,tm,f,b,b64,bi) VALUES (1,'a','1',1,'2020-01-01',1,'10:11:12.25',0.1,65,18446744073709551615,x'41')," +
		" (2,'a ','0',2,'2021-01-01',2,'10:11:12.5',2.3,66,1,x'ff'), (3,'A',NULL,3,NULL,3,NULL,NULL,NULL,NULL,NULL)," +
		" (4,'B','[]',NULL,'2020-01-01',4,'-00:00:00.75',1e10,0,9,'1'), (5,'b','0.0',5,'2022-02-02',5,'0:0:1',-0.1,1,0,'')," +
		" (6,'C','false',6,'2020-01-01',0,'0:0:1',0,1,65,'a')")
	for _, q := range append(pushedFunctions, pushedConstants...) {
		s.exec("SET sql_mode = CONCAT(@@sql_mode, ',NO_UNSIGNED_SUBTRACTION'), tidb_opt_distinct_agg_push_down = ON")
		want := s.exec(fmt.Sprintf(q, "(SELECT * FROM w ORDER BY id LIMIT 1000000)"))
		require.Equal(t, want, s.exec(fmt.Sprintf(q, "")), q)
	}
}

var pushedFunctions = []string{
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
	"SELECT MAX(JSON_ARRAY(IFNULL(d, b))), MIN(JSON_ARRAY(IF(a, d, b64))), MIN(id) FROM %s w",
	"SELECT JSON_TYPE(JSON_EXTRACT(JSON_ARRAY(COALESCE(d, b)), '$[0]')) AS x, COUNT(*) FROM %s w GROUP BY x ORDER BY x",
	"SELECT IFNULL(d, b) AS x, COUNT(*) FROM %s w GROUP BY x ORDER BY x",
	"SELECT id FROM %s w WHERE u - 2 < 0 ORDER BY id",
	"SELECT SUM(u - 3) FROM %s w",
}

// pushedConstants have constants of all types, among them columns of an outer query and subqueries, which are constants by
// the time a query is pushed down.
var pushedConstants = []string{
	"SELECT id FROM %s w WHERE d > DATE_SUB(CAST('x' AS DATE), INTERVAL a DAY)",
	"SELECT id FROM %s w WHERE DATE_ADD(CAST(NULL AS DATETIME), INTERVAL a DAY) IS NULL ORDER BY id",
	"SELECT COUNT(DATE_ADD(CAST(NULL AS DATE), INTERVAL a DAY)) FROM %s w",
	"SELECT COUNT(*), a FROM %s w GROUP BY DATE_ADD(CAST(NULL AS DATETIME), INTERVAL a DAY), a ORDER BY a",
	"SELECT COUNT(*), u FROM %s w GROUP BY DATE_ADD((SELECT d FROM w WHERE id = 99), INTERVAL a DAY), u ORDER BY u",
	"SELECT DISTINCT DATE_ADD(CAST(NULL AS DATE), INTERVAL a DAY) AS x, u, f FROM %s w ORDER BY u",
	"SELECT COUNT(*), u FROM %s w GROUP BY (SELECT f FROM w WHERE id = 2), (SELECT tm FROM w WHERE id = 99), u ORDER BY u",
	"SELECT COUNT(*), u FROM %s w GROUP BY (SELECT b FROM w WHERE id = 2), (SELECT bi FROM w WHERE id = 2), u ORDER BY u",
	"SELECT SUM(TIME'10:11:12.25'), AVG(TIME'10:11:12.25'), MAX((SELECT tm FROM w WHERE id = 4)) FROM %s w",
	"SELECT id FROM %s w WHERE DATE_ADD(TIME'10:11:12.25', INTERVAL a SECOND) = '10:11:13.25'",
	"SELECT DATE_ADD(TIME'10:11:12.25', INTERVAL a DAY) = 0 AS x, COUNT(*) FROM %s w GROUP BY x ORDER BY x",
	"SELECT BIT_OR((SELECT b FROM w WHERE id = 2)), SUM((SELECT b FROM w WHERE id = 1)), MAX((SELECT f FROM w WHERE id = 1)) FROM %s w",
	"SELECT BIT_XOR((SELECT e FROM w WHERE id = 1)), SUM((SELECT e FROM w WHERE id = 1)), MAX((SELECT e FROM w WHERE id = 1)) FROM %s w",
	"SELECT COUNT(*), u FROM %s w GROUP BY (SELECT e FROM w WHERE id = 1), u ORDER BY u",
	"SELECT id FROM %s w WHERE a + (SELECT b FROM w WHERE id = 1) = 66",
	"SELECT SUM(DISTINCT CAST(1.5 AS FLOAT)), COUNT(DISTINCT CAST(NULL AS DECIMAL(5,0))) FROM %s w",
	"SELECT MAX(x'41'), SUM(_binary'1'), SUM(BINARY '1'), SUM(''), SUM((SELECT x'41')) FROM %s w",
	"SELECT o.id, (SELECT /*+ NO_DECORRELATE() */ COUNT(*) FROM %s w WHERE w.a + o.x > 60) FROM (SELECT id, x'41' AS x FROM w) o ORDER BY o.id",
	"SELECT COUNT(DISTINCT CAST(NULL AS DECIMAL(5,0))) FROM %s w",
	"SELECT SUM(DISTINCT CAST(1.5 AS FLOAT)) FROM %s w",
	"SELECT o.id, (SELECT /*+ NO_DECORRELATE() */ COUNT(*) FROM %s w WHERE o.tm + w.a > 101113.2) FROM w o ORDER BY o.id",
	"SELECT o.id, (SELECT /*+ NO_DECORRELATE() */ COUNT(*) FROM %s w WHERE CONCAT(o.tm, w.v) = '10:11:12.25a') FROM w o ORDER BY o.id",
	"SELECT o.id, (SELECT /*+ NO_DECORRELATE() */ COUNT(*) FROM %s w WHERE CONCAT(o.f, w.v) IN ('0.1a', '2.3b')) FROM w o ORDER BY o.id",
	"SELECT o.id, (SELECT /*+ NO_DECORRELATE() */ COUNT(*) FROM %s w WHERE w.u < o.b64) FROM w o ORDER BY o.id",
	"SELECT o.id, (SELECT /*+ NO_DECORRELATE() */ COUNT(*) FROM %s w WHERE w.u <= o.b64 DIV 2) FROM w o ORDER BY o.id",
	"SELECT o.id, (SELECT /*+ NO_DECORRELATE() */ COUNT(*) FROM %s w WHERE CONCAT(o.bi, w.v) <= 'AA') FROM w o ORDER BY o.id",
	"SELECT o.id, (SELECT /*+ NO_DECORRELATE() */ SUM(t.c) FROM (SELECT COUNT(*) AS c, w.u FROM %s w WHERE w.id >= o.id" +
		" GROUP BY DATE_ADD(o.d, INTERVAL w.a DAY), w.u) t) FROM w o ORDER BY o.id",
	"SELECT o.id, (SELECT /*+ NO_DECORRELATE() */ COUNT(*) FROM %s w WHERE DATE_ADD(o.tm, INTERVAL w.a SECOND) <= '10:11:13.25') FROM w o ORDER BY o.id",
	"SELECT o.id, (SELECT /*+ NO_DECORRELATE() */ COUNT(*) FROM %s w WHERE DATE_ADD(o.b, INTERVAL w.a DAY) IS NULL) FROM w o ORDER BY o.id",
}

// TestRequestIsBuiltTwice: building an expression leaves the request as it was.
func TestRequestIsBuiltTwice(t *testing.T) {
	half := &tipb.Expr{
		Tp: tipb.ExprType_Float64, Val: codec.EncodeFloat(nil, 0.5), FieldType: expression.ToPBFieldType(types.NewFieldType(mysql.TypeFloat)),
	}
	pb := call(tipb.ScalarFuncSig_LTReal, half, half)
	want := pb.String()
	env, err := newEvalEnv(&tipb.DAGRequest{})
	require.NoError(t, err)
	for range 2 {
		e, err := env.buildExpr(pb, nil)
		require.NoError(t, err)
		require.Equal(t, mysql.TypeFloat, e.(*expression.ScalarFunction).GetArgs()[1].GetType(env.eval).GetType())
		require.Equal(t, want, pb.String())
	}
}
