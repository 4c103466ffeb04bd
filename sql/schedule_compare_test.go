package sql_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/backfill/compare"
	"fastddl/ddl"
	"fastddl/sql"
)

// slowComparison is a backfiller whose comparisons end only with their windows.
type slowComparison struct {
	ddl.Backfiller
	begun func()
}

func (s *slowComparison) Compare(ctx context.Context, _ ddl.CompareTask) (compare.Result, error) {
	s.begun()
	<-ctx.Done()
	return compare.Result{}, context.Cause(ctx)
}

// TestComparisonThatDoesNotFitItsWindow: it does not begin anew for ever.
func TestComparisonThatDoesNotFitItsWindow(t *testing.T) {
	clock := &wallClock{}
	e := newEnv(t, clock.use, func(o *sql.Options) {
		o.Backfiller = &slowComparison{ddl.NewBackfiller(backfill.Options{Store: o.Builds, Globals: o.Globals, Bus: o.Bus}), clock.noon}
	})
	c := e.client()
	table(c, 100)
	s := e.client()
	s.run("SET fastddl_ddl_window = '" + nights + "'")
	result := make(chan error, 1)
	go func() {
		_, err := s.try("ALTER TABLE t ADD UNIQUE INDEX u (a)")
		result <- err
	}()
	for attempt := 2; attempt <= 3; attempt++ {
		require.Eventually(t, func() bool {
			jobs := e.DDL().Unfinished()
			return len(jobs) == 1 && strings.Contains(jobs[0].WaitReason, fmt.Sprintf("with the rows anew, attempt %d of 3", attempt))
		}, hangTimeout, 5*time.Millisecond)
		clock.night()
	}
	require.ErrorContains(t, wait(t, result), "the comparison of the index with the rows does not fit into its window")
	e.leavesNothing(c, "t")
}
