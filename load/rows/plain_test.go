package rows

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pingcap/tidb/pkg/table"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// What is cast here is what TiDB casts: the same datum, for every kind of column and any text.
func TestPlainValuesEqualTiDBs(t *testing.T) {
	r := rand.New(rand.NewPCG(randtest.Seed(t), 1))
	var columns []string
	for _, typ := range []string{"tinyint", "smallint", "mediumint", "int", "bigint", "tinyint(1)", "int(3) zerofill"} {
		columns = append(columns, typ, typ+" unsigned")
	}
	for _, typ := range []string{"char(5)", "varchar(5)", "varchar(300)", "char(0)", "varchar(3) binary"} {
		for _, set := range []string{"utf8mb4", "utf8", "latin1", "ascii", "gbk", "binary"} {
			columns = append(columns, strings.Replace(typ, " binary", "", 1)+" character set "+set)
		}
	}
	columns = append(columns, "varchar(9) collate utf8mb4_general_ci", "text", "double", "date", "bit(8)", "year", "json", "enum('a')")
	for i, c := range columns {
		columns[i] = fmt.Sprintf("c%d %s", i, c)
	}
	source := statement{create: "create table t (" + strings.Join(columns, ",") + ")", files: map[string]string{"t.csv": ""}}.open(t)
	enc, err := source.newEncoder(statementFields(source.c), 0, NewIDs(State{}))
	require.NoError(t, err)
	defer enc.close()
	plain := 0
	for range 20000 {
		i := r.IntN(len(columns))
		column := enc.columns[i]
		text := plainTestText(r)
		var got types.Datum
		c := newPlainColumn(&column.FieldType)
		if !c.cast(text, &got) {
			continue
		}
		plain++
		want, err := table.CastColumnValue(enc.ctx, types.NewStringDatum(text), column.ToInfo(), false, false)
		require.NoError(t, err, "%s: %q", columns[i], text)
		if want.Kind() == types.KindString { // no text may be nil or empty
			require.Equal(t, want.GetString(), got.GetString(), "%s: %q", columns[i], text)
			require.Equal(t, want.Collation(), got.Collation(), "%s: %q", columns[i], text)
			continue
		}
		require.Equal(t, want, got, "%s: %q", columns[i], text)
	}
	require.Greater(t, plain, 2000)
}

func plainTestText(r *rand.Rand) string {
	edges := []string{
		"", "0", "-0", "007", "127", "128", "-128", "-129", "255", "256", "32767", "65535", "8388607", "16777215", "2147483647", "2147483648", "-2147483648",
		"4294967295", "999999999999999999", "9223372036854775807", "18446744073709551615", "1.5", "1e3", " 1", "1 ", "+1", "--1", "-", "a", "a ", "äöü", "日本", "😀", "\xff", "abcde", "abcdef", "a\x00",
	}
	if r.IntN(2) == 0 {
		return edges[r.IntN(len(edges))]
	}
	return fmt.Sprint(int64(r.Uint64()) >> r.IntN(64))
}
