package dump

import (
	"context"
	"testing"

	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"
)

func TestIntroducersGoAndStringsStay(t *testing.T) {
	for text, want := range map[string]string{
		"(1,_binary 'a',_binary '')":                  "(1,'a','')",
		`('x _binary \' y',"_binary '",_binary '\'')`: `('x _binary \' y',"_binary '",'\'')`,
		"(1,_binary x'61')":                           "(1,_binary x'61')",
		"('unfinished _binary '":                      "('unfinished _binary '",
	} {
		require.Equal(t, want, withoutIntroducers(text, false), text)
	}
	require.Equal(t, `('\','b')`, withoutIntroducers(`('\',_binary 'b')`, true))
}

// TestGeneratedValuesAreLeftOut: MariaDB's dumps have them, in statements that name no columns.
func TestGeneratedValuesAreLeftOut(t *testing.T) {
	table := tableOf("t")
	columns := []column{{name: "a"}, {name: "g", generated: true}, {name: "b`"}}
	got, err := withoutGenerated(context.Background(), table, columns, `INSERT INTO t VALUES (1,'x','it\'s'),(-2,NULL,0x00ff),(1.50,"",_binary 'a')`)
	require.NoError(t, err)
	require.Equal(t, "INSERT INTO `d`.`t` (`a`, `b```) VALUES (1,'it''s'),(-2,x'00ff'),('1.50','a')", got)
	listed := "INSERT INTO t (a) VALUES (1)"
	got, err = withoutGenerated(context.Background(), table, columns, listed)
	require.NoError(t, err)
	require.Equal(t, listed, got)
	_, err = withoutGenerated(context.Background(), table, columns, "INSERT INTO t VALUES (1,2,3),(1,2)")
	require.ErrorContains(t, err, "row 2 has 2 values for 3 columns")
}

func TestLiterals(t *testing.T) {
	for want, value := range map[string]any{
		"NULL": nil, "-5": int64(-5), "18446744073709551615": uint64(1<<64 - 1), "0.1": float32(0.1), "1e+100": 1e100,
		`'a''b\\\n\0'`: "a'b\\\n\x00", "x'ff00'": "\xff\x00", "''": "",
	} {
		d := types.NewDatum(value)
		got, err := literalOf(&d, settings{})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for want, value := range map[string]any{`'a\''b'`: `a\'b`, "'a\nb'": "a\nb", "x'6100'": "a\x00"} {
		d := types.NewDatum(value)
		got, err := literalOf(&d, settings{literalBackslash: true})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	table := tableOf("t")
	table.Files[0].settings.literalBackslash = true
	got, err := withoutGenerated(context.Background(), table, []column{{name: "a"}, {name: "g", generated: true}}, `INSERT INTO t VALUES ('C:\','x')`)
	require.NoError(t, err)
	require.Equal(t, "INSERT INTO `d`.`t` (`a`) VALUES ('C:\\')", got)
}
