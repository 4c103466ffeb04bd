package embedded

import (
	"context"
	"testing"

	"github.com/pingcap/tidb/pkg/session"
	"github.com/stretchr/testify/require"
)

func TestBootstrap(t *testing.T) {
	dir := t.TempDir()
	for round := range 2 {
		s, err := Open(dir, Options{})
		require.NoError(t, err)
		dom, err := session.BootstrapSession(s.Storage())
		require.NoError(t, err)
		se, err := session.CreateSession(s.Storage())
		require.NoError(t, err)
		exec := func(sql string) [][]any {
			rs, err := se.Execute(context.Background(), sql)
			require.NoError(t, err)
			if len(rs) == 0 {
				return nil
			}
			rows, err := session.GetRows4Test(context.Background(), se, rs[0])
			require.NoError(t, err)
			var out [][]any
			for _, r := range rows {
				out = append(out, []any{r.GetInt64(0)})
			}
			return out
		}
		if round == 0 {
			exec("create table test.t (a int primary key, b int, key (b))")
			exec("insert into test.t values (1, 2), (3, 4)")
		}
		require.Len(t, exec("select a from test.t where b > 1"), 2)
		se.Close()
		dom.Close()
		require.NoError(t, s.Close())
	}
}
