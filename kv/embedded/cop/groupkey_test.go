package cop

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/collate"
	"github.com/pingcap/tipb/go-tipb"
	"github.com/stretchr/testify/require"
)

// TestKeysOfStringsAreEqualAsTheCollationSays: two strings have equal keys if and only if the library's keys are equal, under
// every collation, also where nulls and a second column follow, and also where all collations are binary.
func TestKeysOfStringsAreEqualAsTheCollationSays(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	defer collate.SetNewCollationEnabledForTest(true)
	for _, newCollations := range []bool{true, false} {
		collate.SetNewCollationEnabledForTest(newCollations)
		for _, collation := range []string{
			charset.CollationBin, charset.CollationASCII, charset.CollationLatin1, charset.CollationUTF8, charset.CollationUTF8MB4,
			"utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_0900_bin", "",
		} {
			requireEqualKeys(t, rnd, collation)
		}
	}
}

func requireEqualKeys(t *testing.T, rnd *rand.Rand, collation string) {
	env, err := newEvalEnv(&tipb.DAGRequest{})
	require.NoError(t, err)
	ft := types.NewFieldType(mysql.TypeVarchar)
	ft.SetCollate(collation)
	fields := []*types.FieldType{ft, ft}
	const rows = 200
	batch := chunk.NewChunkWithCapacity(fields, rows)
	for range rows {
		for k := range fields {
			if rnd.IntN(5) == 0 {
				batch.AppendNull(k)
			} else {
				value := []string{"", "a", "A", "a ", "a  ", " a", "b", "\x00", "\x01a", "ä", "aa", "a\t"}[rnd.IntN(12)]
				batch.AppendString(k, value)
			}
		}
	}
	library := make([][]byte, rows)
	exprs := make([]expression.Expression, len(fields))
	for k := range fields {
		exprs[k] = &expression.Column{Index: k, RetType: ft}
		library, err = codec.HashGroupKey(time.UTC, rows, batch.Column(k), library, ft)
		require.NoError(t, err)
	}
	keys, err := newKeyEncoder(env, exprs).encode(env, batch)
	require.NoError(t, err)
	for i := range rows {
		for k := range i {
			require.Equal(t, string(library[i]) == string(library[k]), string(keys[i]) == string(keys[k]),
				"collation %q, rows %v and %v", collation, batch.GetRow(i).ToString(fields), batch.GetRow(k).ToString(fields))
		}
	}
	env.recycle(0, 0)
}
