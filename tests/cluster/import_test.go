package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/txnkv"
	"github.com/tikv/client-go/v2/util/codec"
	pdhttp "github.com/tikv/pd/client/http"

	"fastddl/internal/randtest"
	"fastddl/kv"
	"fastddl/kv/tikv/sstimport"
	"fastddl/tests/cluster/standin"
)

var (
	importRounds = flag.Int("import.rounds", 20, "how many random imports there are")
)

// importing is an importer into a cluster, over the network.
type importing struct {
	*sstimport.Importer
	t       *testing.T
	cluster *standin.Cluster
	pd      *standin.Endpoint
	dir     string
	// observer asks PD by another way than the importer.
	observer pdhttp.Client
}

func startImporting(t *testing.T, c *standin.Cluster, change func(*sstimport.Options)) *importing {
	t.Helper()
	pd, err := c.Open()
	require.NoError(t, err)
	client, err := txnkv.NewClient([]string{pd.Addr})
	require.NoError(t, err)
	http := pdhttp.NewClient("import-test", []string{pd.Addr})
	opts := sstimport.Options{
		PD: client.GetPDClient(), Splitter: client.KVStore, Labels: http,
		Backoff: func(int) time.Duration { return 5 * time.Millisecond },
	}
	if change != nil {
		change(&opts)
	}
	im, err := sstimport.New(opts)
	require.NoError(t, err)
	other, err := c.Open()
	require.NoError(t, err)
	observer := pdhttp.NewClient("observer", []string{other.Addr})
	t.Cleanup(func() {
		pd.Heal()
		require.NoError(t, im.Close())
		http.Close()
		observer.Close()
		require.NoError(t, client.Close())
	})
	return &importing{Importer: im, t: t, cluster: c, pd: pd, dir: t.TempDir(), observer: observer}
}

// ts is a timestamp of now.
func (im *importing) ts() uint64 {
	im.t.Helper()
	ts, err := im.cluster.Store().Builds().CurrentTS(im.t.Context())
	require.NoError(im.t, err)
	return ts
}

// unit writes a unit of the keys from one number to before another.
func (im *importing) unit(prefix string, version uint64, from, to int, pairs map[string]string) kv.ImportUnit {
	im.t.Helper()
	w, err := im.NewWriter(im.t.Context(), kv.ImportOptions{Dir: im.dir, Version: version})
	require.NoError(im.t, err)
	for i := from; i < to; i++ {
		key, value := importKey(prefix, i), fmt.Sprintf("value %d at %d", i, version)
		require.NoError(im.t, w.Add([]byte(key), []byte(value)))
		pairs[key] = value
	}
	u, err := w.Finish(im.t.Context())
	require.NoError(im.t, err)
	return u
}

func importKey(prefix string, i int) string { return fmt.Sprintf("%s-%06d", prefix, i) }

// at returns what a snapshot sees of the keys with a prefix.
func (im *importing) at(prefix string, ts uint64) map[string]string {
	im.t.Helper()
	snapshot, err := im.cluster.Store().Builds().Snapshot(im.t.Context(), ts)
	require.NoError(im.t, err)
	defer func() { require.NoError(im.t, snapshot.Close()) }()
	it, err := snapshot.Iter(kv.PrefixRange([]byte(prefix + "-")))
	require.NoError(im.t, err)
	defer func() { require.NoError(im.t, it.Close()) }()
	pairs := make(map[string]string)
	for it.Valid() {
		pairs[string(it.Key())] = string(it.Value())
		require.NoError(im.t, it.Next())
	}
	return pairs
}

// labels is the number of PD's label rules.
func (im *importing) labels() int {
	im.t.Helper()
	rules, err := im.observer.GetAllRegionLabelRules(im.t.Context())
	require.NoError(im.t, err)
	return len(rules)
}

// requireImported checks that at the version there is what was to be imported, before it
// nothing, and that neither a file nor a label rule is left.
func (im *importing) requireImported(prefix string, version uint64, want map[string]string) {
	im.t.Helper()
	require.Equal(im.t, want, im.at(prefix, version))
	require.Equal(im.t, want, im.at(prefix, im.ts()))
	require.Empty(im.t, im.at(prefix, version-1))
	entries, err := os.ReadDir(im.dir)
	require.NoError(im.t, err)
	require.Empty(im.t, entries)
	require.Zero(im.t, im.labels())
}

// split splits a region, as PD and TiKV do on their own.
func (im *importing) split(key string) {
	im.t.Helper()
	_, err := im.cluster.Store().PDClient().SplitRegions(context.Background(), [][]byte{codec.EncodeBytes(nil, []byte(key))})
	require.NoError(im.t, err)
}

// importErrors are what TiKV may say of an import.
var importErrors = map[string]func(*kvrpcpb.Context) *errorpb.Error{
	"not the leader": standin.NotLeader, "epoch": standin.EpochNotMatch, "region not found": standin.RegionNotFound,
	"busy": standin.ServerIsBusy, "stale": standin.StaleCommand, "key not in region": standin.KeyNotInRegion,
	"splitting": standin.ReadIndexNotReady, "merging": standin.ProposalInMergingMode, "dropped": standin.ProposalDropped,
}

// TestImportFaults: the pairs are imported although requests of an import fail, before or
// after they were executed.
func TestImportFaults(t *testing.T) {
	c := startCluster(t, nil)
	im := startImporting(t, c, nil)
	faults := map[string]standin.Fault{
		"broken at the start":      {Commands: []string{"Write"}, Break: true},
		"broken in the middle":     {Commands: []string{"Write"}, Break: true, After: 2},
		"broken at the end":        {Commands: []string{"Write"}, Break: true, After: 1000},
		"answer of a file is lost": {Commands: []string{"Write"}, Break: true, Late: true},
		"slow file":                {Commands: []string{"Write"}, Delay: time.Millisecond, After: 1},
		"busy with a file":         {Commands: []string{"Write"}, Region: standin.ServerIsBusy, After: 1},
		"broken":                   {Commands: []string{"MultiIngest"}, Break: true},
		"answer lost":              {Commands: []string{"MultiIngest"}, Break: true, Late: true},
		"slow":                     {Commands: []string{"MultiIngest"}, Delay: time.Millisecond},
	}
	for name, regionErr := range importErrors {
		faults[name] = standin.Fault{Commands: []string{"MultiIngest"}, Region: regionErr}
		faults[name+", but done"] = standin.Fault{Commands: []string{"MultiIngest"}, Region: regionErr, Late: true}
	}
	for i, name := range slices.Sorted(maps.Keys(faults)) {
		t.Run(name, func(t *testing.T) {
			fault := faults[name]
			fault.Times = 3 // the empty request before an import, the import, and another one
			injected := c.Faults().Inject(fault)
			defer injected.Remove()
			prefix, version, want := fmt.Sprintf("fault%02d", i), im.ts(), make(map[string]string)
			require.NoError(t, im.Import(t.Context(), []kv.ImportUnit{im.unit(prefix, version, 0, 5000, want)}))
			require.Positive(t, injected.Hits())
			im.requireImported(prefix, version, want)
		})
	}
	t.Run("disk full", func(t *testing.T) {
		injected := c.Faults().Inject(standin.Fault{Commands: []string{"MultiIngest"}, Region: standin.DiskFull, Late: true})
		u := im.unit("full", im.ts(), 0, 10, map[string]string{})
		err := im.Import(t.Context(), []kv.ImportUnit{u})
		injected.Remove()
		require.ErrorIs(t, err, kv.ErrDiskFull)
		require.NoError(t, u.Discard())
	})
}

// TestRandomImports: units are imported under random faults, while regions are split at
// random. Afterwards there is exactly what they held.
func TestRandomImports(t *testing.T) {
	seed := randtest.Seed(t)
	c := startCluster(t, nil)
	hits := 0
	var splits atomic.Int64
	for round := range *importRounds {
		ok := t.Run(fmt.Sprint(round), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, uint64(round)))
			im := startImporting(t, c, func(o *sstimport.Options) {
				o.SplitBytes, o.MaxAttempts = 100<<10, 1000
				if rnd.IntN(3) == 0 {
					o.Splitter = nil
				}
			})
			prefix, version, want := fmt.Sprintf("round%04d", round), im.ts(), make(map[string]string)
			const keys = 20_000
			for range rnd.IntN(4) {
				im.split(importKey(prefix, rnd.IntN(keys)))
			}
			var units []kv.ImportUnit
			for at := rnd.IntN(100); at < keys; at += rnd.IntN(100) {
				to := min(at+1+rnd.IntN(6000), keys)
				units = append(units, im.unit(prefix, version, at, to, want))
				at = to
			}
			rnd.Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] })
			var injected []*standin.Injected
			for range 1 + rnd.IntN(8) {
				injected = append(injected, c.Faults().Inject(randomFault(im, rnd, prefix, keys, &splits)))
			}
			err := im.Import(t.Context(), units)
			for _, i := range injected {
				hits += i.Hits()
				i.Remove()
			}
			require.NoError(t, err)
			im.requireImported(prefix, version, want)
		})
		if !ok {
			t.Fatalf("round %d of seed %d", round, seed)
		}
	}
	t.Logf("%d imports, %d faults, %d splits during imports", *importRounds, hits, splits.Load())
}

// randomFault makes up a fault, which may be that a region is split at that moment.
func randomFault(im *importing, rnd *rand.Rand, prefix string, keys int, splits *atomic.Int64) standin.Fault {
	f := standin.Fault{
		Commands: []string{[]string{"Write", "MultiIngest"}[rnd.IntN(2)]},
		Times:    1 + rnd.IntN(4), After: rnd.IntN(6), Late: rnd.IntN(2) == 0,
		Delay: time.Duration(rnd.IntN(3)) * time.Millisecond,
	}
	switch rnd.IntN(4) {
	case 0:
		f.Break = true
	case 1:
		key := importKey(prefix, rnd.IntN(keys))
		f.Times, f.Late = 1, false
		f.Before = func() {
			im.split(key)
			splits.Add(1)
		}
	default:
		names := slices.Sorted(maps.Keys(importErrors))
		f.Region = importErrors[names[rnd.IntN(len(names))]]
	}
	return f
}

// TestLateImportIsFenced: a node stops while its request is on its way, the job is taken
// over, and the node goes on. What it has sent is refused, and it sends nothing more.
func TestLateImportIsFenced(t *testing.T) {
	c := startCluster(t, nil)
	lost := errors.New("the job is somebody else's")
	var taken atomic.Bool
	im := startImporting(t, c, nil)
	want := make(map[string]string)
	version := im.ts()
	u := im.unit("fenced", version, 0, 1000, want)
	var requests atomic.Int64
	c.Faults().Inject(standin.Fault{Commands: []string{"MultiIngest"}, Before: func() {
		if requests.Add(1) == 1 { // there are no followers to be asked whether they are busy
			taken.Store(true)
			im.split(importKey("fenced", 500))
		}
	}})
	ctx := kv.WithPermit(t.Context(), func() error {
		if taken.Load() {
			return lost
		}
		return nil
	})
	require.ErrorIs(t, im.Import(ctx, []kv.ImportUnit{u}), lost)
	require.Empty(t, im.at("fenced", im.ts()))
	require.EqualValues(t, 1, requests.Load())

	next := startImporting(t, c, nil)
	again := next.unit("fenced", version, 0, 1000, want)
	require.NoError(t, next.Import(t.Context(), []kv.ImportUnit{again}))
	require.NoError(t, u.Discard())
	next.requireImported("fenced", version, want)
}

// TestPauseOfADeadNode: PD may schedule again some time after a node has gone that had
// paused it, although no node has resumed it.
func TestPauseOfADeadNode(t *testing.T) {
	c := startCluster(t, nil)
	const ttl = 3 * time.Second // a third of it may pass between two renewals
	im := startImporting(t, c, func(o *sstimport.Options) { o.SplitBytes, o.LabelTTL, o.Splitter = 10<<10, ttl, nil })
	held := c.Faults().Inject(standin.Fault{Commands: []string{"MultiIngest"}, Region: standin.ServerIsBusy})
	ctx, cancel := context.WithCancel(t.Context())
	u := im.unit("dead", im.ts(), 0, 1000, map[string]string{})
	ended := make(chan error)
	go func() { ended <- im.Import(ctx, []kv.ImportUnit{u}) }()
	eventually(t, "the import is held up", func() bool { return held.Hits() > 0 })
	time.Sleep(2 * ttl)
	// A machine that is too busy may be late with it.
	eventually(t, "it is renewed as long as the import runs", func() bool { return im.labels() == 1 })
	im.pd.Cut() // to PD this node is gone
	eventually(t, "PD forgets the rule", func() bool { return im.labels() == 0 })
	im.pd.Heal()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.NoError(t, u.Discard())
	eventually(t, "what was on its way ends too", func() bool { return im.labels() == 0 })
}
