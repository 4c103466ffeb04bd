package backfill

import (
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/expression/exprstatic"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/table"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/stretchr/testify/require"

	ours "fastddl/table"
)

// TestOriginDefaultEqualsTheLibrary compares default values, as they are found
// in the metadata of a column added to a table with rows, with TiDB's.
func TestOriginDefaultEqualsTheLibrary(t *testing.T) {
	texts := map[string]any{
		"tinyint": "5", "smallint": "-7", "mediumint": "70000", "int": "123456", "bigint": "-1",
		"bigint unsigned": "18446744073709551615", "year": "1999", "float": "1.25", "double": "-2.5e10",
		"decimal(12,4)": "12345.6", "date": "2024-02-29", "datetime(6)": "2024-02-29 10:11:12.345678",
		"timestamp(3)": "2024-02-29 10:11:12.345", "time(2)": "-12:34:56.78", "enum": "c", "set": "a,c",
		"varbinary": "ab", "char utf8mb4_bin": "日本", "varchar utf8mb4_bin": "x ", "varchar utf8mb4_0900_bin": "x ",
		"varchar utf8mb4_general_ci": "ÄÖ", "char utf8mb4_0900_ai_ci": "ß", "varchar latin1_bin": "l", "varchar ascii_bin": "a",
	}
	ctx := exprstatic.NewExprContext()
	for _, kind := range columnTypes {
		text, ok := texts[kind.name]
		for _, notNull := range []bool{false, true} {
			for _, value := range []any{nil, text} {
				if value != nil && !ok {
					continue
				}
				col := &model.ColumnInfo{ID: 1, FieldType: *kind.field(), Version: model.CurrLatestColumnInfoVersion}
				col.OriginDefaultValue = value
				if notNull {
					col.AddFlag(mysql.NotNullFlag)
				}
				want, err := table.GetColOriginDefaultValueWithoutStrictSQLMode(ctx, col)
				require.NoError(t, err)
				got, err := ours.OriginDefault(col)
				require.NoError(t, err)
				require.Equal(t, encodeDatum(t, want), encodeDatum(t, got), "%s default %v not null %v", kind.name, value, notNull)
			}
		}
	}

	bad := &model.ColumnInfo{ID: 1, FieldType: *kindNamed("date").field(), OriginDefaultValue: "no date"}
	_, err := ours.OriginDefault(bad)
	require.Error(t, err)
}

func encodeDatum(t *testing.T, d types.Datum) []byte {
	b, err := codec.EncodeKey(time.UTC, nil, d)
	require.NoError(t, err)
	return b
}

// TestRowsOlderThanTheColumn: rows without a column get its origin default in
// the index.
func TestRowsOlderThanTheColumn(t *testing.T) {
	r := newRand(t)
	info, kinds := plainTable()
	f := newFixture(t, info, kinds)
	f.insert(r, 50)

	added := &model.ColumnInfo{
		ID: 9, Offset: 4, FieldType: *kindNamed("int").field(), State: model.StatePublic,
		Version: model.CurrLatestColumnInfoVersion, OriginDefaultValue: "42",
	}
	info.Columns = append(info.Columns, added)
	f.kinds = append(f.kinds, kindNamed("int"))
	for key, row := range f.rows {
		row.values = append(row.values, types.NewIntDatum(42))
		f.rows[key] = row
	}
	f.next = 1000
	f.insert(r, 50)
	idx := indexOn(9, false, 4)
	spec := f.spec(idx)
	_, err := Run(f.ctx, f.options(), spec)
	require.NoError(t, err)
	f.requireIndex(idx, spec.TS, "added column")
}
