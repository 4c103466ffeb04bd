package demo

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/sbtest"
)

func TestReport(t *testing.T) {
	s := [phases]sbtest.LatencySummary{
		before: {Seconds: 2, Completed: 2, PerSecond: 1, P50: 3, P99: 3},
		during: {Seconds: 1, Completed: 1, PerSecond: 1, P50: 5, P99: 5, Retries: 2, Failed: 1},
		after:  {Seconds: 2},
	}
	var out bytes.Buffer
	report(&out, s)
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
	require.ErrorContains(t, failure(s, errors.New("lost")), "1 transactions failed, for example: lost")
	require.ErrorContains(t, failure([phases]sbtest.LatencySummary{}, nil), "no transaction")
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
