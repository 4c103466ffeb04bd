package standin

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/txnkv"
	pd "github.com/tikv/pd/client"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func start(t *testing.T) *Cluster {
	t.Helper()
	c, err := Start(Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func endpoint(t *testing.T, c *Cluster) *Endpoint {
	t.Helper()
	e, err := c.Open()
	require.NoError(t, err)
	return e
}

// TestTimestamps: what PD hands out over several endpoints, to clients that ask for many
// at once, is never handed out twice, and grows for each client.
func TestTimestamps(t *testing.T) {
	c := start(t)
	var mu sync.Mutex
	seen := make(map[[2]int64]bool)
	see := func(ts [2]int64) {
		mu.Lock()
		defer mu.Unlock()
		if seen[ts] {
			t.Errorf("%v was handed out twice", ts)
		}
		seen[ts] = true
	}
	var clients sync.WaitGroup
	for range 3 {
		client, err := pd.NewClient([]string{endpoint(t, c).Addr}, pd.SecurityOption{})
		require.NoError(t, err)
		defer client.Close()
		for range 16 {
			clients.Go(func() {
				var last [2]int64
				for range 200 {
					physical, logical, err := client.GetTS(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					ts := [2]int64{physical, logical}
					if ts[0] < last[0] || ts[0] == last[0] && ts[1] <= last[1] {
						t.Errorf("%v after %v", ts, last)
					}
					last = ts
					see(ts)
				}
			})
		}
		// The store takes timestamps beside.
		clients.Go(func() {
			for range 30_000 {
				ts, err := c.Store().Builds().CurrentTS(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				see([2]int64{oracle.ExtractPhysical(ts), oracle.ExtractLogical(ts)})
			}
		})
	}
	clients.Wait()
}

// TestPartitionedEndpointLosesItsLease: a client that is cut off loses its lease; the others notice nothing.
func TestPartitionedEndpointLosesItsLease(t *testing.T) {
	c := start(t)
	connect := func(e *Endpoint) *clientv3.Client {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Addr}, DialTimeout: time.Minute})
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		require.NoError(t, client.Sync(t.Context()))
		require.Equal(t, []string{"http://" + e.Addr}, client.Endpoints(), "it stays at its endpoint")
		return client
	}
	for name, cut := range map[string]func(*Endpoint){"all": (*Endpoint).Cut, "etcd": (*Endpoint).CutEtcd} {
		t.Run(name, func(t *testing.T) {
			first, second := endpoint(t, c), endpoint(t, c)
			one, two := connect(first), connect(second)
			session, err := concurrency.NewSession(one, concurrency.WithTTL(2))
			require.NoError(t, err)
			require.NoError(t, concurrency.NewElection(session, "/owner").Campaign(t.Context(), "one"))
			other, err := concurrency.NewSession(two)
			require.NoError(t, err)
			won := make(chan error, 1)
			go func() { won <- concurrency.NewElection(other, "/owner").Campaign(context.Background(), "two") }()
			cut(first)
			select {
			case err := <-won:
				require.NoError(t, err)
			case <-time.After(time.Minute):
				require.FailNow(t, "the lease does not run out")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, err = one.Get(ctx, "/owner")
			require.Error(t, err)
			first.Heal()
			got, err := one.Get(t.Context(), "/owner", clientv3.WithPrefix())
			require.NoError(t, err)
			require.Len(t, got.Kvs, 1)
			require.Equal(t, "two", string(got.Kvs[0].Value))
			require.NoError(t, other.Close())
		})
	}
}

// TestFaultsHappenAsOrdered: a fault happens as often as it was ordered, to the requests it was ordered
// for, and the client gets over it.
func TestFaultsHappenAsOrdered(t *testing.T) {
	c := start(t)
	client, err := txnkv.NewClient([]string{endpoint(t, c).Addr})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	put := func(key, value string) {
		txn, err := client.Begin()
		require.NoError(t, err)
		require.NoError(t, txn.Set([]byte(key), []byte(value)))
		require.NoError(t, txn.Commit(t.Context()))
	}
	put("a", "1")
	for name, fault := range map[string]Fault{
		"not leader":       {Region: NotLeader},
		"epoch not match":  {Region: EpochNotMatch},
		"region not found": {Region: RegionNotFound},
		"server is busy":   {Region: ServerIsBusy},
		"broken":           {Break: true},
		"slow":             {Delay: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			fault.Commands, fault.Times = []string{"Get", "Prewrite"}, 2
			injected := c.Faults().Inject(fault)
			put("a", name)
			ts, err := client.CurrentTimestamp("global")
			require.NoError(t, err)
			for range 2 {
				value, err := client.GetSnapshot(ts).Get(t.Context(), []byte("a"))
				require.NoError(t, err)
				require.Equal(t, name, string(value))
			}
			require.Equal(t, 2, injected.Hits())
			injected.Remove()
		})
	}
	removed := c.Faults().Inject(Fault{Region: ServerIsBusy})
	removed.Remove()
	put("a", "last")
	require.Zero(t, removed.Hits())
}
