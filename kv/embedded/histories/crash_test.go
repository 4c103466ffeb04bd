package histories

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
)

// crashAfter crashes the store after the first prewrite, whose answer is lost.
type crashAfter struct {
	tikv.Client
	crash func()
	done  atomic.Bool
}

func (l *crashAfter) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	resp, err := l.Client.SendRequest(ctx, addr, req, timeout)
	if req.Type == tikvrpc.CmdPrewrite && l.done.CompareAndSwap(false, true) {
		l.crash()
		return nil, errLost
	}
	return resp, err
}

// TestCommittedInOnePhaseBeforeACrash: a client without an answer to its commit is in doubt of it, also where the keys are
// in two regions when it asks again.
func TestCommittedInOnePhaseBeforeACrash(t *testing.T) {
	for name, split := range map[string]bool{"one region": false, "split": true} {
		t.Run(name, func(t *testing.T) {
			r := &run{t: t, cluster: newCluster(t, 1, false)}
			r.faults.Store(&faults{})
			cl := r.cluster.newClient(t, false, &r.faults)
			defer cl.close()
			network := &crashAfter{Client: cl.link(), crash: func() {
				r.cluster.crash(rand.New(rand.NewPCG(1, 1)))
				if split {
					_, err := cl.SplitRegions(t.Context(), [][]byte{[]byte("b")}, false, nil)
					require.NoError(t, err)
				}
			}}
			codec := tikv.NewCodecPDClient(tikv.ModeTxn, &placement{r.cluster.current().store.PDClient(), r.cluster})
			store, err := tikv.NewKVStore("crash", codec, tikv.NewMockSafePointKV(), network)
			require.NoError(t, err)
			defer store.Close()
			tx, err := store.Begin()
			require.NoError(t, err)
			tx.SetEnable1PC(true)
			require.NoError(t, tx.Set([]byte("a"), []byte("1")))
			require.NoError(t, tx.Set([]byte("c"), []byte("1")))
			outcome, _, err := r.commit(t.Context(), tx)
			require.Equal(t, Unknown, outcome, "%v", err)

			later, err := store.Begin()
			require.NoError(t, err)
			value, err := later.Get(t.Context(), []byte("c"))
			require.NoError(t, err, "the transaction has committed before the crash")
			require.Equal(t, "1", string(value))
		})
	}
}
