package cluster

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"fastddl/tests/cluster/standin"
)

// server is one of the SQL servers, and what is done to it. Errors of its clients that
// are known to result from that are expected.
type server struct {
	name         string
	db           *sql.DB
	pd           *standin.Endpoint
	ours         *node        // or nil
	theirs       *plainServer // or nil
	mu           sync.Mutex
	disturbances int       // going on
	calm         time.Time // when the last one ended
}

// aftermath is how long errors result from a disturbance that is over: until leases are
// held again, and schemas are loaded.
const aftermath = 20 * time.Second

// disturbed notes that something is done to the server, until the function that it returns.
func (s *server) disturbed() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disturbances++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.disturbances--
		s.calm = time.Now()
	}
}

// disturbedSince says whether something was done to the server at some time since t.
func (s *server) disturbedSince(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.disturbances > 0 || s.calm.Add(aftermath).After(t)
}

func (s *server) process() *os.Process {
	if s.ours != nil {
		return s.ours.Cmd.Process
	}
	return s.theirs.cmd.Process
}

func (s *server) kill() {
	if s.ours != nil {
		s.ours.Kill()
	} else {
		s.theirs.kill()
	}
}

func (s *server) start() {
	if s.ours != nil {
		s.ours.start()
	} else {
		s.theirs.start()
	}
}

func (r *random) any(rng *rand.Rand) *server { return pick(rng, r.servers...) }

// ours is any of the servers that build indexes.
func (r *random) ours(rng *rand.Rand) *server { return pick(rng, r.servers[:nodesOfOurs]...) }

// allRun fails if one of our servers has ended by itself. The caller ends none meanwhile.
func (r *random) allRun() error {
	for _, s := range r.servers[:nodesOfOurs] {
		if s.ours.Exited() {
			return wrongf("%s has ended by itself", s.name)
		}
	}
	return nil
}

// disturb does things to servers, one after the other, until the time is up; when it
// returns all of them are well. Where servers and builds are slow there is more time
// between two: each step of a build waits for all servers, those that start again included.
func (r *random) disturb(ctx context.Context, rng *rand.Rand, until time.Time) error {
	for pause(ctx, rng, max(4*time.Second, 4*r.pace)) && time.Now().Before(until) {
		if err := r.allRun(); err != nil {
			return err
		}
		s := r.ours(rng)
		if oneIn(rng, 2) {
			s = r.owner(ctx, s)
		}
		if oneIn(rng, 8) {
			s = r.plain
		}
		r.disturbServer(ctx, rng, s)
	}
	return nil
}

// Longer than the lease of an owner of jobs, which lasts ten seconds.
const overALease, longOverALease = 11 * time.Second, 15 * time.Second

func (r *random) disturbServer(ctx context.Context, rng *rand.Rand, s *server) {
	defer s.disturbed()()
	if s == r.owner(ctx, nil) {
		r.counts.takeovers.Add(1)
	}
	most := longOverALease
	if oneIn(rng, 3) {
		most = 3 * time.Second
	}
	wait := func() {
		if most > overALease {
			pause(ctx, rng, most-overALease)
			most = overALease + time.Nanosecond
		}
		select {
		case <-time.After(most):
		case <-ctx.Done():
		}
	}
	faults := 20
	if s.pd == nil { // there is nothing to cut it off from
		faults = 14
	}
	switch n := rng.IntN(faults); {
	case n < 8:
		r.counts.kills.Add(1)
		s.kill()
		if oneIn(rng, 4) { // otherwise it comes back before any node has noticed
			wait()
		}
		s.start()
	case n < 12:
		r.counts.stops.Add(1)
		_ = s.process().Signal(syscall.SIGSTOP) // it runs
		wait()
		_ = s.process().Signal(syscall.SIGCONT)
	case n < 14:
		if s.ours != nil {
			r.counts.restarts.Add(1)
			s.ours.Terminate() // it may not end in good order beside the faults of the store
			s.start()
		}
	case n < 17:
		r.counts.etcd.Add(1)
		s.pd.CutEtcd()
		wait()
		s.pd.Heal()
	default:
		r.counts.pd.Add(1)
		s.pd.Cut()
		wait()
		s.pd.Heal()
	}
}

// owner is the server that runs the oldest job, or what it is given if there is none.
func (r *random) owner(ctx context.Context, otherwise *server) *server {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for _, asked := range r.servers {
		rows, err := texts(ctx, asked.db, "SELECT JSON_UNQUOTE(JSON_EXTRACT(CONVERT(record USING utf8mb4), '$.owner')) FROM mysql.fastddl_ddl_record ORDER BY job_id LIMIT 1")
		if err != nil {
			continue
		}
		if len(rows) > 0 {
			addr, _, _ := strings.Cut(rows[0][0], "/")
			if i := slices.IndexFunc(r.servers, func(s *server) bool { return s.name == addr }); i >= 0 {
				return r.servers[i]
			}
		}
		break
	}
	return otherwise
}

// disturbStore has requests to the store fail, or take long.
func (r *random) disturbStore(ctx context.Context, rng *rand.Rand) error {
	regionErrors := []func(*kvrpcpb.Context) *errorpb.Error{
		standin.NotLeader, standin.EpochNotMatch, standin.RegionNotFound, standin.ServerIsBusy, standin.ServerIsBusy,
	}
	importErrors := append(slices.Clone(regionErrors), standin.StaleCommand, standin.KeyNotInRegion, standin.ReadIndexNotReady,
		standin.ProposalInMergingMode, standin.ProposalDropped, standin.DiskFull)
	reads, writes := []string{"Get", "BatchGet", "Scan", "Coprocessor"}, []string{"Prewrite", "Commit", "PessimisticLock", "ResolveLock", "CheckTxnStatus"}
	imports := []string{"MultiIngest", "Ingest", "Write"}
	for !r.ending.Load() {
		fault := standin.Fault{Times: 1 + rng.IntN(4)}
		switch rng.IntN(8) {
		case 0:
			fault.Commands, fault.Region = reads, pick(rng, regionErrors...)
		case 1:
			fault.Commands, fault.Region = writes, pick(rng, regionErrors...)
		case 2:
			fault.Commands, fault.Break = append(slices.Clone(reads), writes...), true
		case 3:
			fault.Commands, fault.Delay = append(slices.Clone(reads), writes...), rand.N(300*time.Millisecond)
		case 4:
			fault.Commands, fault.Break, fault.Late, fault.After = imports, true, oneIn(rng, 2), rng.IntN(3)
		case 5:
			fault.Commands, fault.Delay, fault.Times = imports, rand.N(2*time.Second), 10
		default:
			fault.Commands, fault.Region, fault.Late = imports, pick(rng, importErrors...), oneIn(rng, 4)
		}
		over := r.store.disturbed()
		injected := r.standIn.Faults().Inject(fault)
		ok := pause(ctx, rng, 3*time.Second)
		injected.Remove()
		over()
		r.counts.storeFault.Add(int64(injected.Hits()))
		if !ok || !pause(ctx, rng, 2*time.Second) {
			return ctx.Err()
		}
	}
	return nil
}

// Numbers of errors. After conflicts a transaction is to be run again.
var (
	conflicts = []uint16{1205, 1213, 8002, 8022, 8028, 8147, 9007}
	// excusable are: the result is not known; the statement was interrupted, or the server is
	// shutting down; the lease of the schema has run out; PD or a store did not answer, or is
	// busy, or a region has no leader.
	excusable = []uint16{2, 1053, 1317, 8027, 9001, 9002, 9003, 9004, 9005, 9012}
)

func codeOf(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

func isConflict(err error) bool { return slices.Contains(conflicts, codeOf(err)) }

// lostError is an error that is excused after a disturbance only.
type lostError struct{ error }

// unexpected returns an error unless it results from what was done to a server, or to the
// store, since a moment; then nil.
func (r *random) unexpected(s *server, since time.Time, err error) error {
	if isWrong(err) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	code := codeOf(err)
	// TiDB hands on as it is what PD's client says of a broken stream of timestamps.
	noPD := code == 1105 && (strings.HasSuffix(err.Error(), " context canceled") ||
		slices.ContainsFunc([]string{"rpc error: code = ", "TSO stream", "[PD:"}, func(of string) bool { return strings.Contains(err.Error(), of) }))
	// A pessimistic transaction from before S whose prewrite is sent again after the import finds S under an entry that
	// it has not locked (check_for_newer_version in TiKV's src/storage/txn/actions/prewrite.rs).
	sentAgain := code == 1105 && strings.Contains(err.Error(), "NonLockKeyConflict")
	if code != 0 && !noPD && !sentAgain && !slices.Contains(excusable, code) && !errors.As(err, new(lostError)) {
		return err
	}
	// Where the store is what failed, too, a connection may be lost: TiDB closes it when the
	// result of a commit is not known (pkg/server/conn.go, ErrResultUndetermined).
	if s.disturbedSince(since) || r.store.disturbedSince(since) {
		return nil
	}
	return err
}

// drop closes a connection whose session is in an unknown state.
func drop(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // which it returns
}
