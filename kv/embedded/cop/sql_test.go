package cop

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/pingcap/log"
	"github.com/pingcap/tidb/pkg/session"
	"github.com/pingcap/tidb/pkg/session/types"
	"github.com/pingcap/tidb/pkg/store/mockstore"
	"github.com/pingcap/tidb/pkg/testkit"
	"github.com/pingcap/tipb/go-tipb"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikv"
	"go.uber.org/zap/zapcore"
)

func TestMain(m *testing.M) {
	log.SetLevel(zapcore.FatalLevel) // TiDB has much to say
	os.Exit(m.Run())
}

// sqlSession runs SQL on TiDB over unistore with this package as its coprocessor.
type sqlSession struct {
	t      testing.TB
	se     types.Session
	oracle *oracleClient
}

func newSQLSession(t testing.TB) *sqlSession {
	oracle := &oracleClient{executors: map[tipb.ExecType]int{}}
	store := testkit.CreateMockStore(t, mockstore.WithClientHijacker(func(c tikv.Client) tikv.Client {
		oracle.Client = c
		return oracle
	}))
	se, err := session.CreateSession4Test(store)
	require.NoError(t, err)
	s := &sqlSession{t: t, se: se, oracle: oracle}
	s.exec("use test")
	return s
}

// try runs a statement and returns its rows.
func (s *sqlSession) try(sql string) ([][]string, error) {
	ctx := context.Background()
	sets, err := s.se.Execute(ctx, sql)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, rs := range sets {
		got, err := session.ResultSetToStringSlice(ctx, s.se, rs)
		if err := errors.Join(err, rs.Close()); err != nil {
			return nil, err
		}
		rows = append(rows, got...)
	}
	return rows, nil
}

func (s *sqlSession) exec(sql string) [][]string {
	s.t.Helper()
	rows, err := s.try(sql)
	require.NoError(s.t, err, sql)
	return rows
}
