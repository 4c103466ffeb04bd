package histories

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fastddl/internal/randtest"
)

// workload is what sessions do, and how it is checked.
type workload interface {
	// transact does one transaction of a session.
	transact(ctx context.Context, session int, rng *rand.Rand)
	// finish checks the history, when all sessions have ended and nothing disturbs any more.
	finish(ctx context.Context) Report
}

// workloads are all of them.
var workloads = []struct {
	name string
	make func(*run) workload
	// calm says that the network works: a commit whose client has gone must not come later than it has.
	calm bool
}{
	{"lists", newLists, false},
	{"registers", newRegisters, false},
	{"bank", newBank, false},
	{"forks", newForks, false},
	{"imports", newImports, true},
}

// setting is what a history takes place in.
type setting struct {
	clients, sessions int
	remote            bool // every second client talks gRPC
	crashes, deaths   bool
	faults            faults
	syncDelay         time.Duration
}

// run is one history of one workload.
type run struct {
	setting
	t       *testing.T
	cluster *cluster
	faults  atomic.Pointer[faults]
	clients []atomic.Pointer[client]
	// retired are clients that have died.
	retired []*client
	deaths  int
	// gcAge is how old garbage has to be: a quarter of the history, which would have none otherwise.
	gcAge time.Duration

	mu     sync.Mutex
	counts map[string]int
	errors map[string]int
}

// totals are sums over histories.
type totals struct {
	mu                                     sync.Mutex
	histories, txns, reads, edges, crashes int
	deaths                                 int
	counts                                 map[string]int
}

func (r *run) client(rng *rand.Rand) *client { return r.clients[rng.IntN(len(r.clients))].Load() }

// count counts a transaction by its kind and outcome.
func (r *run) count(name string, o Outcome, err error) {
	outcome := [...]string{"unknown", "committed", "aborted"}[o]
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[name+": "+outcome]++
	if err != nil {
		text := err.Error()
		r.errors[text[:min(len(text), 100)]]++
	}
}

// sessionTimeout is how long a transaction may take before its client gives up: without answers client-go tries for
// minutes.
const sessionTimeout = 5 * time.Second

// history runs a workload for some time and checks what was seen.
func history(t *testing.T, seed uint64, s setting, make_ func(*run) workload, length time.Duration) (*run, Report) {
	r := &run{setting: s, t: t, gcAge: length / 4, counts: make(map[string]int), errors: make(map[string]int)}
	r.cluster = newCluster(t, seed, s.remote)
	r.cluster.life.fs.delay.Store(int64(s.syncDelay))
	r.faults.Store(&s.faults)
	r.clients = make([]atomic.Pointer[client], s.clients)
	for i := range r.clients {
		r.clients[i].Store(r.cluster.newClient(t, s.remote && i%2 == 1, &r.faults))
	}
	w := make_(r)
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var sessions sync.WaitGroup
	for i := range s.sessions {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		sessions.Go(func() {
			for ctx.Err() == nil {
				limited, done := context.WithTimeout(context.WithoutCancel(ctx), sessionTimeout)
				w.transact(limited, i, rng)
				done()
			}
		})
	}
	r.disturb(ctx, rand.New(rand.NewPCG(seed, 1<<32)))
	sessions.Wait()
	r.faults.Store(&faults{})
	report := w.finish(context.WithoutCancel(ctx))
	for i := range r.clients {
		r.clients[i].Load().close()
	}
	for _, cl := range r.retired {
		cl.close()
	}
	return r, report
}

// disturb crashes the store, splits regions, collects garbage and kills clients until ctx ends.
func (r *run) disturb(ctx context.Context, rng *rand.Rand) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(10+rng.IntN(100)) * time.Millisecond):
		}
		switch n := rng.IntN(6); {
		case n == 0 && r.setting.crashes:
			r.cluster.crash(rng)
		case n == 1 && r.setting.deaths:
			i := rng.IntN(len(r.clients))
			old := r.clients[i].Swap(r.cluster.newClient(r.t, r.setting.remote && i%2 == 1, &r.faults))
			old.dead.Store(true)
			r.retired = append(r.retired, old)
			r.deaths++
		case n == 2:
			r.collectGarbage(ctx)
		case n > 2:
			r.split(ctx, rng)
		}
	}
}

func (r *run) collectGarbage(ctx context.Context) {
	ts, err := r.cluster.timestamp(ctx)
	if err == nil {
		_, err = r.cluster.current().store.PDClient().UpdateGCSafePoint(ctx, ts-uint64(r.gcAge.Milliseconds())<<18)
	}
	switch {
	case err == nil:
		r.count("garbage collection", Committed, nil)
	case ctx.Err() == nil:
		r.count("garbage collection", Aborted, err)
	}
}

// split splits regions at random keys.
func (r *run) split(ctx context.Context, rng *rand.Rand) {
	var keys [][]byte
	for range 1 + rng.IntN(3) {
		keys = append(keys, r.splitKey(rng))
	}
	if _, err := r.client(rng).SplitRegions(ctx, keys, false, nil); err != nil && ctx.Err() == nil {
		r.count("splitting", Aborted, err)
	}
}

func (r *run) splitKey(rng *rand.Rand) []byte {
	prefixes := []string{"list/%06d/a", "list/%06d/m", "list/%06d/z", "bank/%06d", "group/%06d/", "register/%06d"}
	key := fmt.Sprintf(prefixes[rng.IntN(len(prefixes))], rng.IntN(20))
	return fmt.Appendf([]byte(key), "%02d", rng.IntN(30))
}

func (s *totals) add(r *run, report Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.histories++
	s.txns, s.reads, s.edges = s.txns+report.Txns, s.reads+report.Reads, s.edges+report.Edges
	s.crashes, s.deaths = s.crashes+r.cluster.crashes, s.deaths+r.deaths
	for name, n := range r.counts {
		s.counts[name] += n
	}
}

func (s *totals) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d histories, %d transactions, %d readings, %d dependencies, %d crashes, %d clients died",
		s.histories, s.txns, s.reads, s.edges, s.crashes, s.deaths)
	for _, name := range slices.Sorted(maps.Keys(s.counts)) {
		fmt.Fprintf(&b, "\n  %s: %d", name, s.counts[name])
	}
	return b.String()
}

// settings are the surroundings of histories, from calm to rough.
var settings = []struct {
	name string
	setting
}{
	{"delays", setting{clients: 1, sessions: 8, faults: faults{delay: 50}, syncDelay: 500 * time.Microsecond}},
	{"crashes", setting{clients: 3, sessions: 9, crashes: true, deaths: true, faults: badNetwork, syncDelay: 2 * time.Millisecond}},
	{"gRPC", setting{clients: 4, sessions: 10, remote: true, crashes: true, deaths: true, faults: badNetwork, syncDelay: time.Millisecond}},
}

// TestHistories runs all workloads in all surroundings, and no history shows an anomaly.
func TestHistories(t *testing.T) {
	seed := randtest.Seed(t)
	slice := 12 * time.Second
	if testing.Short() {
		slice = 6 * time.Second
	}
	total := randtest.Time(t, slice, 30*time.Minute)
	share := total / time.Duration(len(workloads)*len(settings))
	const longest = 5 * time.Second
	for _, w := range workloads {
		for _, s := range settings {
			t.Run(w.name+"/"+s.name, func(t *testing.T) {
				if w.calm {
					s.faults, s.deaths, s.remote = faults{}, false, false
				}
				sums := totals{counts: make(map[string]int)}
				for deadline := time.Now().Add(share); ; {
					length := min(time.Until(deadline), longest)
					if length <= 0 && sums.reads > 0 {
						break
					}
					if length <= 0 { // on a slow machine nothing has been read yet
						length = longest
					}
					seed++
					r, report := history(t, seed, s.setting, w.make, length)
					sums.add(r, report)
					if len(report.Anomalies) > 0 {
						t.Fatalf("seed %d: %s", seed, report.String())
					}
					if os.Getenv("FASTDDL_HISTORIES_ERRORS") != "" {
						t.Logf("%v", r.errors)
					}
				}
				t.Logf("%s: %s", t.Name(), sums.String())
			})
		}
	}
}
