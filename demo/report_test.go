package demo

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

func TestPercentile(t *testing.T) {
	var sorted []time.Duration
	require.Zero(t, percentile(sorted, 0.99))
	for i := 1; i <= 100; i++ {
		sorted = append(sorted, time.Duration(i))
	}
	require.Equal(t, time.Duration(51), percentile(sorted, 0.50))
	require.Equal(t, time.Duration(100), percentile(sorted, 0.99))
	require.Equal(t, time.Duration(7), percentile([]time.Duration{7}, 0.99))
}

func TestReport(t *testing.T) {
	start := time.Now()
	w := &workload{}
	w.started = [phases]time.Time{start, start.Add(2 * time.Second), start.Add(3 * time.Second)}
	w.ended = [phases]time.Time{start.Add(2 * time.Second), start.Add(3 * time.Second), start.Add(5 * time.Second)}
	w.stats[before].latencies = []time.Duration{3 * time.Millisecond, time.Millisecond}
	w.stats[during] = phaseStats{latencies: []time.Duration{5 * time.Millisecond}, conflicts: 2, errors: 1}
	w.failed = []error{errors.New("lost")}
	var out bytes.Buffer
	w.report(&out)
	require.Equal(t, `what the load felt:
                      before      during       after
         seconds        2.00        1.00        2.00
    transactions           2           1           0
  transactions/s         1.0         1.0         0.0
          p50 ms        3.00        5.00        0.00
          p99 ms        3.00        5.00        0.00
       conflicts           0           2           0
          errors           0           1           0
`, out.String())
	require.ErrorContains(t, w.failure(), "1 transactions failed, for example: lost")
	require.ErrorContains(t, (&workload{}).failure(), "no transaction")
}

func TestConflictsAreTheRetryableErrors(t *testing.T) {
	require.True(t, isConflict(&mysql.MySQLError{Number: 1213}))
	require.False(t, isConflict(&mysql.MySQLError{Number: 1062}))
	require.False(t, isConflict(errors.New("1213")))
}

func TestRowsLookLikeSysbench(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	require.Len(t, digitGroups(rng, 10), 119)
	require.Len(t, digitGroups(rng, 5), 59)
	require.Regexp(t, `^\d{11}(-\d{11}){4}$`, digitGroups(rng, 5))
	batch := insertBatch(rng, 3, 1000)
	require.Equal(t, 3, strings.Count(batch, "'),(")+1)
	require.True(t, strings.HasPrefix(batch, "INSERT INTO sbtest1 (k, c, pad) VALUES ("))
}

func TestOptions(t *testing.T) {
	o := Default()
	require.NoError(t, o.Validate())
	o = Options{Rows: 1, Threads: -1, Rate: -1, Phase: -1}
	err := o.Validate()
	for _, want := range []string{"rows 1", "threads -1", "rate -1", "phase -1ns"} {
		require.ErrorContains(t, err, want)
	}
}
