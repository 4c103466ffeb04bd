package cop

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/pingcap/tipb/go-tipb"
	"github.com/stretchr/testify/require"
)

// TestAnswersOutliveTheirChunks: requests that run side by side, and use each other's chunks when these are done with,
// answer as if each were alone, and an answer stays what it was.
func TestAnswersOutliveTheirChunks(t *testing.T) {
	var requests []*fixture
	for _, rows := range []int{1, 3, 40, 100, firstBatch, firstBatch + 1, 2000} {
		requests = append(requests,
			newFixture(t, rows),
			newFixture(t, rows).then(limitTo(17)),
			newFixture(t, rows).then(where(call(tipb.ScalarFuncSig_GTInt, columnRef(0), integer(30)))),
		)
		f := newFixture(t, rows)
		f.useIndex()
		requests = append(requests, f)
		f = newFixture(t, rows).then(countBy(columnRef(2)))
		f.dag.OutputOffsets = []uint32{0, 1}
		requests = append(requests, f)
	}
	alone := make([][]byte, len(requests))
	for i, f := range requests {
		alone[i] = Handle(context.Background(), f.reader, f.request()).Data
		require.NotEmpty(t, alone[i])
	}
	var workers sync.WaitGroup
	failures := make(chan string, 4)
	for w := range 4 {
		workers.Go(func() {
			kept := make([][]byte, len(requests))
			for n := range 40 * len(requests) {
				i := (n*8 + w*3) % len(requests) // each in turn, since 8 and 35 have no common divisor
				f := requests[i]
				data := Handle(context.Background(), f.reader, f.request()).Data
				if !bytes.Equal(alone[i], data) || kept[i] != nil && !bytes.Equal(alone[i], kept[i]) {
					failures <- fmt.Sprintf("request %d", i)
					return
				}
				kept[i] = data
			}
		})
	}
	workers.Wait()
	close(failures)
	for f := range failures {
		t.Errorf("%s: another answer than alone", f)
	}
}

// TestChunksOfLargeRequestsAreNotKept: one large request does not make the chunks of all later ones large.
func TestChunksOfLargeRequestsAreNotKept(t *testing.T) {
	env, err := newEvalEnv(&tipb.DAGRequest{})
	require.NoError(t, err)
	env.recycle(firstBatch+1, 0)
	require.NotNil(t, env.chunks)
	env.recycle(1, recycledBytes+1)
	require.NotNil(t, env.chunks)
	env.recycle(firstBatch, recycledBytes)
	require.Nil(t, env.chunks)
}
