package cop

import (
	"fmt"
	"math"
	"testing"

	"github.com/pingcap/tipb/go-tipb"
	"github.com/stretchr/testify/require"
)

// TestConditionsAreEvaluatedForRowsThatAreLeft has conditions that fail for the rows which another condition before them
// drops, because it is false or NULL.
func TestConditionsAreEvaluatedForRowsThatAreLeft(t *testing.T) {
	s := newSQLSession(t)
	s.exec("CREATE TABLE c (id INT PRIMARY KEY, a INT, f DOUBLE, tm TIME(2), v VARCHAR(10))")
	s.exec("INSERT INTO c VALUES (1, 1, 0.5, '01:00:00', '1'), (2, NULL, 0, '02:00:00', 'x'), (3, 3, NULL, NULL, 'y')")
	// TiDB casts the constant to VARCHAR(13), which is too short for '-63:14:49.000000'.
	long := "HEX(tm) < '-402:20:45'"
	for where, changed := range map[string]uint64{
		"tm = '-63:14:49' AND " + long:        0,
		"a > 7 AND v + 1 > 0":                 0,
		"a = 1 AND v + 1 > 0":                 1,
		"a < 3 AND v + 1 > 0":                 1, // NULL < 3
		"f AND v + 1 > 0":                     1, // no integer
		"f AND a AND v + 1 > 0":               1,
		"id IN (1, 2) AND f < 1 AND f AND -a": 1,
	} {
		s.exec("BEGIN")
		s.exec("UPDATE c SET v = CONCAT(v, '0') WHERE " + where)
		require.Equal(t, changed, s.se.AffectedRows(), where)
		s.exec("ROLLBACK")
	}
}

func TestConditionsOfManyBatches(t *testing.T) {
	f := newFixture(t, 5000).then(where(
		call(tipb.ScalarFuncSig_GEInt, columnRef(0), integer(1000)),
		call(tipb.ScalarFuncSig_LTInt, columnRef(0), integer(4000)),
		// Out of range for the rows that the first two drop.
		call(tipb.ScalarFuncSig_MultiplyInt, columnRef(0), integer(math.MaxInt64/4000)),
	))
	rows := f.rows(f.run())
	require.Len(t, rows, 3000)
	require.Contains(t, fmt.Sprint(rows[0]), "1000")
}
