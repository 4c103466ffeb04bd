package sql_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/util"

	"fastddl/backfill"
	"fastddl/backfill/compare"
	"fastddl/ddl"
	"fastddl/sql"
)

// groups is a backfiller that notes which resource group pays.
type groups struct {
	ddl.Backfiller
	mu   sync.Mutex
	seen []string
}

func (g *groups) note(ctx context.Context, what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = append(g.seen, what+" "+util.ResourceGroupNameFromCtx(ctx))
}

func (g *groups) Backfill(ctx context.Context, t ddl.BackfillTask) (backfill.Result, error) {
	g.note(ctx, "backfill")
	return g.Backfiller.Backfill(ctx, t)
}

func (g *groups) Compare(ctx context.Context, t ddl.CompareTask) (compare.Result, error) {
	g.note(ctx, "compare")
	return g.Backfiller.Compare(ctx, t)
}

// A build is on the account of the resource group of the session that has asked for it.
func TestResourceGroup(t *testing.T) {
	g := new(groups)
	e := newEnv(t, func(o *sql.Options) {
		g.Backfiller = ddl.NewBackfiller(backfill.Options{Store: o.Builds, Globals: o.Globals, Bus: o.Bus})
		o.Backfiller = g
	})
	c := e.client()
	table(c, 10)
	c.run("CREATE RESOURCE GROUP batch RU_PER_SEC = 100000")
	c.run("SET RESOURCE GROUP batch")
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	require.Equal(t, []string{"backfill batch", "compare batch"}, g.seen)
	other := e.client()
	other.run("ALTER TABLE t ADD INDEX i (b)")
	require.Equal(t, "backfill default", g.seen[2])
}
