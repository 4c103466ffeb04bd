package keyrange

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/kv"
)

const planTable = 100

// parseRange parses r<handle>-r<handle>.
func parseRange(t *testing.T, s string) kv.KeyRange {
	at := strings.LastIndex(s, "-r")
	require.Positive(t, at, s)
	return kv.KeyRange{Start: parseKey(t, s[:at]), End: parseKey(t, s[at+1:])}
}

func parseKey(t *testing.T, s string) []byte {
	h, err := strconv.ParseInt(strings.TrimPrefix(s, "r"), 10, 64)
	require.NoError(t, err)
	return tablecodec.EncodeRowKeyWithHandle(planTable, tkv.IntHandle(h))
}

func formatKey(t *testing.T, key []byte) string {
	h, err := tablecodec.DecodeRowKey(key)
	require.NoError(t, err)
	return fmt.Sprintf("r%d", h.IntValue())
}

func formatTasks(t *testing.T, tasks []Weighted) string {
	var b strings.Builder
	for _, task := range tasks {
		fmt.Fprintf(&b, "%s-%s %.0f\n", formatKey(t, task.Start), formatKey(t, task.End), task.Weight/(1<<20))
	}
	return b.String()
}

func TestPlan(t *testing.T) {
	datadriven.RunTest(t, "testdata/plan", func(t *testing.T, d *datadriven.TestData) string {
		var ranges []kv.SizedRange
		var keys [][]byte
		for line := range strings.Lines(d.Input) {
			fields := strings.Fields(line)
			if len(fields) == 1 {
				keys = append(keys, parseKey(t, fields[0]))
				continue
			}
			r := kv.SizedRange{KeyRange: parseRange(t, fields[0])}
			if fields[1] != "?" {
				mib, err := strconv.ParseUint(fields[1], 10, 64)
				require.NoError(t, err)
				r.Bytes = mib << 20
			}
			ranges = append(ranges, r)
		}
		switch d.Cmd {
		case "plan":
			var bounds string
			var target uint64
			d.ScanArgs(t, "bounds", &bounds)
			d.ScanArgs(t, "target", &target)
			atLeast := 1
			d.MaybeScanArgs(t, "at-least", &atLeast)
			return formatTasks(t, planTasks(ranges, parseRange(t, bounds), target<<20, atLeast))
		case "position":
			var b strings.Builder
			for _, k := range keys {
				fmt.Fprintf(&b, "%.3f\n", Position(parseRange(t, d.CmdArgs[0].Key), k))
			}
			return b.String()
		case "merge":
			var tasks []Weighted
			for _, r := range ranges {
				tasks = append(tasks, Weighted{r.KeyRange, float64(r.Bytes)})
			}
			return formatTasks(t, Merge(tasks))
		default:
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		}
	})
}

// TestSplitCoversTheTask: the parts of a task adjoin and cover it, for
// any keys.
func TestSplitCoversTheTask(t *testing.T) {
	r := backfilltest.Rand(t)
	for range backfilltest.Rounds(5000) {
		a, b := randomKey(r), randomKey(r)
		if bytes.Compare(a, b) > 0 {
			a, b = b, a
		}
		if bytes.Equal(a, b) {
			continue
		}
		parts := Split(Weighted{kv.KeyRange{Start: a, End: b}, 1}, 1+r.IntN(9))
		require.Equal(t, a, parts[0].Start)
		require.Equal(t, b, parts[len(parts)-1].End)
		for i, p := range parts {
			require.False(t, p.Empty(), "%x %x", a, b)
			if i > 0 {
				require.Equal(t, parts[i-1].End, p.Start)
			}
		}
		require.InDelta(t, 1, TotalWeight(parts), 1e-9)
		last := 0.0
		for _, p := range parts {
			at := Position(kv.KeyRange{Start: a, End: b}, p.End)
			require.GreaterOrEqual(t, at, last)
			last = at
		}
	}
}

// TestSampledRanges: all of them are read at one time, for any number of tasks.
func TestSampledRanges(t *testing.T) {
	const places = 32
	for n := 1; n < 300; n++ {
		var tasks []Weighted
		for i := range n {
			tasks = append(tasks, Weighted{kv.KeyRange{Start: parseKey(t, fmt.Sprint(1000*i)), End: parseKey(t, fmt.Sprint(1000*i+1000))}, 1})
		}
		ranges := Sampled(tasks, places)
		require.LessOrEqual(t, len(ranges), places)
		require.Greater(t, len(ranges), places/2-1)
		for i := 1; i < len(ranges); i++ {
			require.Negative(t, bytes.Compare(ranges[i-1].Start, ranges[i].Start))
		}
		require.Equal(t, tasks[0].KeyRange, ranges[0])
	}
}

func randomKey(r *rand.Rand) []byte {
	b := []byte("t")
	for range r.IntN(14) {
		b = append(b, []byte{0, 1, 0x7f, 0x80, 0xff}[r.IntN(5)])
	}
	return b
}
