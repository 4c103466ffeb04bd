package server

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"fastddl/ingest/governor"
)

func TestGovernorMetrics(t *testing.T) {
	decision := governor.Full
	registry := prometheus.NewRegistry()
	registry.MustRegister(newGovernorCollector(func() governor.Decision { return decision }))
	values := gather(t, registry)
	require.Equal(t, 1.0, values["fastddl_ddl_governor_share"])
	require.Zero(t, values["fastddl_ddl_governor_giving_way"])
	decision = governor.Decision{Share: 0.25, Reason: governor.CommitLatency}
	values = gather(t, registry)
	require.Equal(t, 0.25, values["fastddl_ddl_governor_share"])
	require.Equal(t, 1.0, values["fastddl_ddl_governor_giving_way"])
}

// TestStatementsAreTheForeground: builds give way to clients' statements, but not
// to those that only wait for a job.
func TestStatementsAreTheForeground(t *testing.T) {
	for query, want := range map[string]bool{
		"select 1": true, "COMMIT": true, "with x as (select 1) select 2": true, "load data infile 'x' into table t": true,
		"ALTER TABLE t ADD INDEX (a)": false, "create index i on t(a)": false, "ADMIN SHOW DDL JOBS": false,
	} {
		require.Equal(t, want, isForeground(statementKind(query)), query)
	}
	s, err := Start(t.Context(), Options{Config: testConfig(t.TempDir()), Version: "test"})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Shutdown(context.Background())) }()
	db := connect(t, s)
	defer db.Close()
	recent := func() time.Duration { return s.Node().Foreground.Recent(time.Now()) }
	require.Eventually(t, func() bool { return recent() < 10*time.Millisecond }, 20*time.Second, 10*time.Millisecond)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		var n sql.NullInt64
		_ = db.QueryRowContext(ctx, "SELECT SLEEP(20)").Scan(&n) // it is cancelled
	}()
	require.Eventually(t, func() bool { return recent() > 100*time.Millisecond }, 20*time.Second, 10*time.Millisecond)
	cancel()
	<-done
	require.Eventually(t, func() bool { return recent() < 10*time.Millisecond }, 20*time.Second, 10*time.Millisecond)
}
