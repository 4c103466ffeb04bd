package backfill

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

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

func formatTasks(t *testing.T, tasks []task) string {
	var b strings.Builder
	for _, task := range tasks {
		fmt.Fprintf(&b, "%s-%s %.0f\n", formatKey(t, task.Start), formatKey(t, task.End), task.weight/(1<<20))
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
				fmt.Fprintf(&b, "%.3f\n", position(parseRange(t, d.CmdArgs[0].Key), k))
			}
			return b.String()
		case "merge":
			var tasks []task
			for _, r := range ranges {
				tasks = append(tasks, task{r.KeyRange, float64(r.Bytes)})
			}
			return formatTasks(t, mergeTasks(tasks))
		default:
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		}
	})
}

// TestSplitCoversTheTask: whatever the keys, the parts of a task adjoin and
// cover it.
func TestSplitCoversTheTask(t *testing.T) {
	r := newRand(t)
	for range rounds(5000) {
		a, b := randomKey(r), randomKey(r)
		if bytes.Compare(a, b) > 0 {
			a, b = b, a
		}
		if bytes.Equal(a, b) {
			continue
		}
		parts := splitTask(task{kv.KeyRange{Start: a, End: b}, 1}, 1+r.IntN(9))
		require.Equal(t, a, parts[0].Start)
		require.Equal(t, b, parts[len(parts)-1].End)
		for i, p := range parts {
			require.False(t, p.Empty(), "%x %x", a, b)
			if i > 0 {
				require.Equal(t, parts[i-1].End, p.Start)
			}
		}
		require.InDelta(t, 1, totalWeight(parts), 1e-9)
		last := 0.0
		for _, p := range parts {
			at := position(kv.KeyRange{Start: a, End: b}, p.End)
			require.GreaterOrEqual(t, at, last)
			last = at
		}
	}
}

// TestSampledRanges: all of them are read at one time, whatever the number of tasks.
func TestSampledRanges(t *testing.T) {
	const places = 32
	for n := 1; n < 300; n++ {
		var tasks []task
		for i := range n {
			tasks = append(tasks, task{kv.KeyRange{Start: parseKey(t, fmt.Sprint(1000*i)), End: parseKey(t, fmt.Sprint(1000*i+1000))}, 1})
		}
		ranges := sampledRanges(tasks, places)
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

// TestQueueLosesNothing lets many workers take, split, give back and end, while
// the limit changes, and checks that everything is done exactly once.
func TestQueueLosesNothing(t *testing.T) {
	r := newRand(t)
	for range rounds(20) {
		const rows = 10_000
		whole := kv.KeyRange{Start: encodeHandle(0), End: encodeHandle(rows)}
		q := newQueue(splitTask(task{whole, rows}, 1+r.IntN(5)), 3)
		done := make([]int, rows)
		var mu sync.Mutex
		var wg sync.WaitGroup
		worker := func() {
			defer wg.Done()
			for {
				c, ok := q.take(context.Background())
				if !ok {
					return
				}
				at, end := decodeHandle(t, c.task.Start), decodeHandle(t, c.task.End)
				for batch := 0; ; batch++ {
					if at >= end {
						q.release(c)
						break
					}
					mu.Lock()
					for range min(10, end-at) {
						done[at]++
						at++
					}
					mu.Unlock()
					rest := task{kv.KeyRange{Start: encodeHandle(at), End: encodeHandle(end)}, float64(end - at)}
					if v := q.judge(); v == yield && at < end {
						q.release(c, rest)
						break
					} else if v == share && at < end {
						q.release(c, splitTask(rest, 2)...)
						break
					}
				}
			}
		}
		start := func(n int) {
			wg.Add(n)
			for range n {
				go worker()
			}
		}
		start(3)
		for range 50 {
			q.setLimit(1+r.IntN(8), start)
			time.Sleep(time.Duration(r.IntN(50)) * time.Microsecond)
		}
		wg.Wait()
		require.Empty(t, q.remaining())
		q.setLimit(20, func(int) { t.Error("somebody is started when all is done") })
		for i, n := range done {
			require.Equal(t, 1, n, "row %d", i)
		}
	}
}

// TestWorkersAreStartedBeforeOthersEnd: whoever waits for the workers may go on when the last of
// them has ended, and none begins then.
func TestWorkersAreStartedBeforeOthersEnd(t *testing.T) {
	q := newQueue([]task{{}}, 1)
	started := 0
	q.setLimit(3, func(n int) {
		started += n
		require.False(t, q.mu.TryLock(), "a worker may end")
	})
	require.Equal(t, 2, started)
}

func TestQueueStops(t *testing.T) {
	whole := task{kv.KeyRange{Start: encodeHandle(0), End: encodeHandle(10)}, 10}
	q := newQueue([]task{whole}, 2)
	c, ok := q.take(context.Background())
	require.True(t, ok)
	require.Equal(t, []task{whole}, q.remaining(), "what a worker has is not done")

	waiting := make(chan bool)
	go func() {
		_, ok := q.take(context.Background())
		waiting <- ok
	}()
	q.stop()
	require.False(t, <-waiting)
	require.Equal(t, yield, q.judge())
	rest := task{kv.KeyRange{Start: encodeHandle(4), End: encodeHandle(10)}, 6}
	q.release(c, rest)
	_, ok = q.take(context.Background())
	require.False(t, ok)
	require.Equal(t, []task{rest}, q.remaining())
}

func TestQueueEndsWithItsContext(t *testing.T) {
	q := newQueue([]task{{}}, 2)
	_, ok := q.take(context.Background())
	require.True(t, ok)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(time.Millisecond, cancel)
	_, ok = q.take(ctx)
	require.False(t, ok)
}

func encodeHandle(h int) []byte {
	return tablecodec.EncodeRowKeyWithHandle(100, tkv.IntHandle(h))
}

func decodeHandle(t *testing.T, key []byte) int {
	h, err := tablecodec.DecodeRowKey(key)
	require.NoError(t, err)
	return int(h.IntValue())
}
