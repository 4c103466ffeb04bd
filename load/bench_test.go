package load

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/config"
)

// BenchmarkLoad loads rows of the sysbench table with two secondary indexes from CSV; time is that of all rows, with verification.
func BenchmarkLoad(b *testing.B) {
	const rows = 200_000
	r := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	digits := func(groups int) string {
		var s strings.Builder
		for g := range groups {
			if g > 0 {
				s.WriteByte('-')
			}
			fmt.Fprintf(&s, "%011d", r.Int64N(1e11))
		}
		return s.String()
	}
	for i := range rows {
		fmt.Fprintf(&text, "%d,%d,%s,%s\n", i+1, r.IntN(rows), digits(10), digits(5))
	}
	const create = "CREATE TABLE sbtest1 (id INT NOT NULL PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL, KEY k_1 (k), KEY c_1 (c))"
	for b.Loop() {
		b.StopTimer()
		f := newFilesFixture(b, create, text.String())
		f.spec.Verify = config.VerifyAuto
		b.StartTimer()
		result, err := f.run()
		require.NoError(b, err)
		require.EqualValues(b, rows, result.Rows)
		b.ReportMetric(result.CPUSeconds*1e9/rows, "cpu-ns/row")
		for stage, seconds := range result.Stages {
			b.ReportMetric(seconds*1e9/rows, stage+"-ns/row")
		}
	}
}
