package status

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	pingcaperrors "github.com/pingcap/errors"
	"github.com/pingcap/tidb/pkg/domain"
	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/session/txninfo"
	"github.com/pingcap/tidb/pkg/util"
	"github.com/tikv/client-go/v2/oracle"
	"go.uber.org/zap"

	"fastddl/config"
	"fastddl/ddl/job"
	"fastddl/ddl/session"
	"fastddl/event"
)

const (
	// blockerInterval is how often the transactions that a job waits for are looked
	// at, the first time after firstBlockerDelay.
	blockerInterval   = 200 * time.Millisecond
	firstBlockerDelay = 50 * time.Millisecond
	// maxShownBlockers is how many of them are named.
	maxShownBlockers = 3
)

// blocker is a transaction that uses a table which a job waits for.
type blocker struct {
	job.Blocker
	db        string
	started   time.Time
	elsewhere bool // it is one of another server
	// sql is the statement that runs; digest is that of the transaction's last one.
	sql, digest string
}

// Waits finds what jobs wait for: transactions of all servers, and imports.
type Waits struct {
	Sessions *session.Pool
	Domain   *domain.Domain
	Globals  *config.Globals
	Bus      *event.Bus
	Logger   *zap.Logger
	// Clustered says that there may be other servers.
	Clustered bool
	// Spawn runs a function on a goroutine that the component waits for when it closes.
	Spawn func(fn func())
	// Contain runs a function and makes an error of a panic in it.
	Contain func(what string, fn func() error) error
}

// Blocker is what is shown of a transaction that a job waits for.
type Blocker struct {
	job.Verdict
	DB      string
	Started time.Time
	SQL     string
	// Elsewhere says that it is a transaction of another server.
	Elsewhere bool
}

// blockers returns the transactions of this server that use a table and began before a moment.
func blockers(sm util.SessionManager, tableID int64, before, now time.Time) []blocker {
	var found []blocker
	for _, info := range transactionsOn(sm, tableID) {
		if started := oracle.GetTimeFromTS(info.StartTS); started.Before(before) {
			found = append(found, describeBlocker(sm, info, started, now))
		}
	}
	return found
}

// transactionsOn returns the transactions of this server that use a table.
func transactionsOn(sm util.SessionManager, tableID int64) (found []*txninfo.TxnInfo) {
	for _, info := range sm.ShowTxnList() {
		if info == nil || info.StartTS == 0 || info.ProcessInfo == nil {
			continue
		}
		if _, uses := info.ProcessInfo.RelatedTableIDs[tableID]; uses {
			found = append(found, info)
		}
	}
	return found
}

// Open returns how many transactions of all servers use a table, and since when the oldest is open. That of the given connection
// does not count. A server that does not answer is left out.
func (w *Waits) Open(ctx context.Context, tableID int64, but uint64) (n int, oldest time.Duration) {
	sm := w.Domain.InfoSyncer().GetSessionManager()
	if sm == nil {
		return 0, 0
	}
	now := time.Now()
	found := blockers(sm, tableID, now, now)
	if w.Clustered {
		others, err := w.blockersElsewhere(ctx, tableID, now)
		if err != nil {
			w.Logger.Info("cannot look at the transactions of other servers", zap.Error(err))
		}
		found = append(found, others...)
	}
	for _, b := range found {
		if b.ConnID != but {
			n, oldest = n+1, max(oldest, b.Age)
		}
	}
	return n, oldest
}

// HasOlder says that a transaction of any server uses a table and began before a snapshot.
func (w *Waits) HasOlder(ctx context.Context, tableID int64, snapshotTS uint64) bool {
	older := func(info *txninfo.TxnInfo) bool { return info.StartTS < snapshotTS }
	if sm := w.Domain.InfoSyncer().GetSessionManager(); sm != nil && slices.ContainsFunc(transactionsOn(sm, tableID), older) {
		return true
	}
	return w.Clustered && w.hasOlderElsewhere(ctx, tableID, snapshotTS)
}

func describeBlocker(sm util.SessionManager, info *txninfo.TxnInfo, started, now time.Time) blocker {
	b := blocker{
		Blocker: job.Blocker{
			ConnID: info.ProcessInfo.ConnectionID, User: info.ProcessInfo.Username, Age: now.Sub(started), Keys: info.EntriesCount,
		},
		db: info.ProcessInfo.CurrentDB, started: started,
	}
	if n := len(info.AllSQLDigests); n > 0 {
		b.digest = info.AllSQLDigests[n-1]
	}
	if p, ok := sm.GetProcessInfo(b.ConnID); ok && p != nil {
		b.sql = withoutLiterals(p.Info)
		if p.Command == mysql.ComSleep {
			b.Idle = max(now.Sub(p.Time), 1)
		}
	}
	return b
}

const (
	// maxNormalized is how much of a statement is looked at, and maxShown how much of it is
	// shown, in bytes: an INSERT may have many megabytes.
	maxNormalized = 64 << 10
	maxShown      = 4 << 10
)

// withoutLiterals is a statement as it is shown and logged.
func withoutLiterals(sql string) string {
	return session.Shortened(parser.Normalize(session.Shortened(sql, maxNormalized), pingcaperrors.RedactLogEnable), maxShown)
}

// ShowingBlockers runs a wait and shows the transactions that it is for meanwhile.
func (w *Waits) ShowingBlockers(ctx context.Context, r *job.Record, shown *View, wait func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		_ = w.Contain("the watch of blockers", func() error { w.watchBlockers(ctx, r, shown); return nil })
	}()
	defer func() {
		cancel()
		<-watching
	}()
	return wait(ctx)
}

// judge applies the policy, and returns the blockers in the order in which they are
// ended. remembered are the texts of statements that were looked up, by digest.
func (w *Waits) judge(ctx context.Context, found []blocker, remembered map[string]string) []Blocker {
	known := make(map[uint64]blocker, len(found))
	asked := make([]job.Blocker, len(found))
	for i, b := range found {
		known[b.ConnID] = b
		asked[i] = b.Blocker
	}
	g := w.Globals
	policy := job.BlockerPolicy{
		IdleTimeout: g.Duration(config.IdleBlockerTimeout), MaxAge: g.Duration(config.BlockerMaxAge),
		SparedKeys: uint64(g.Int(config.BlockerSparedKeys)), SparedUsers: job.ParseUsers(g.Get(config.BlockerSparedUsers)),
	}
	judged := make([]Blocker, len(found))
	for i, v := range policy.Judge(asked) {
		b := known[v.ConnID]
		judged[i] = Blocker{Verdict: v, DB: b.db, Started: b.started, SQL: b.sql, Elsewhere: b.elsewhere}
		if b.sql == "" && b.digest != "" {
			if _, ok := remembered[b.digest]; !ok {
				remembered[b.digest] = w.statementText(ctx, b.digest)
			}
			judged[i].SQL = remembered[b.digest]
		}
	}
	return judged
}

// watchBlockers shows who a job waits for, and ends the sessions of those that the
// policy does not bear.
func (w *Waits) watchBlockers(ctx context.Context, r *job.Record, shown *View) {
	start := time.Now()
	reported := false
	remembered, ended, idle := make(map[string]string), make(map[uint64]bool), make(idleSpells)
	defer shown.setBlockers("", nil)
	next := time.NewTimer(firstBlockerDelay)
	defer next.Stop()
	found := w.watchElsewhere(ctx, r.TableID, start)
	var others []blocker
	var seen time.Time
	for ; ; next.Reset(blockerInterval) {
		fresh := false // what was seen a moment ago is shown, and not ended
		select {
		case <-ctx.Done():
			return
		case others = <-found:
			fresh, seen = true, time.Now()
		case <-next.C:
			if time.Since(seen) > staleAfter {
				others = nil
			}
		}
		sm := w.Domain.InfoSyncer().GetSessionManager()
		if sm == nil {
			continue
		}
		now := time.Now()
		all := append(blockers(sm, r.TableID, start, now), others...)
		for i := range all {
			if !all[i].elsewhere || fresh {
				idle.correct(&all[i], now)
			}
		}
		judged := w.judge(ctx, all, remembered)
		shown.setBlockers(blockersText(judged), judged)
		if !reported {
			reported = true
			w.Bus.Emit(event.LockWait{Job: event.Job{ID: r.ID}, Waited: now.Sub(start), Blockers: blockerNames(judged)})
		}
		w.endBlockers(sm, r, judged, ended)
		if fresh {
			w.endElsewhere(ctx, sm, r, judged, ended)
		}
	}
}

// endElsewhere is endBlockers for the sessions of other servers.
func (w *Waits) endElsewhere(ctx context.Context, sm util.SessionManager, r *job.Record, judged []Blocker, ended map[uint64]bool) {
	for _, b := range judged {
		if !b.End || !b.Elsewhere {
			continue
		}
		if err := w.killElsewhere(ctx, sm, b.ConnID); err != nil {
			w.Logger.Info("a session of another server is not ended", zap.Uint64("connection", b.ConnID), zap.Error(err))
			continue
		}
		w.publishEnded(r, b, ended)
	}
}

// endBlockers ends the sessions of this server that the policy does not bear. It takes a moment until
// one has gone; those in ended are already reported.
func (w *Waits) endBlockers(sm util.SessionManager, r *job.Record, judged []Blocker, ended map[uint64]bool) {
	for _, b := range judged {
		if !b.End || b.Elsewhere {
			continue
		}
		sm.Kill(b.ConnID, false, false, false)
		w.publishEnded(r, b, ended)
	}
}

// publishEnded emits once that a session is ended.
func (w *Waits) publishEnded(r *job.Record, b Blocker, ended map[uint64]bool) {
	if ended[b.ConnID] {
		return
	}
	ended[b.ConnID] = true
	w.Bus.Emit(event.IdleBlockerEnded{
		Job: event.Job{ID: r.ID}, Schema: r.DB, Table: r.Table, ConnID: b.ConnID, Age: b.Age, Idle: b.Idle, SQL: b.SQL,
	})
}

// statementText is a statement that a session has run, without its literals: that is
// how TiDB remembers statements.
func (w *Waits) statementText(ctx context.Context, digest string) string {
	rows, err := w.Sessions.Query(ctx, `SELECT digest_text FROM information_schema.statements_summary WHERE digest = %? LIMIT 1`, digest)
	if err != nil || len(rows) == 0 {
		return "" // it is not remembered any more
	}
	return rows[0].GetString(0)
}

func blockerNames(found []Blocker) []string {
	names := make([]string, len(found))
	for i, b := range found {
		names[i] = fmt.Sprintf("connection %d", b.ConnID)
	}
	return names
}

// blockersText says what a job waits for.
func blockersText(found []Blocker) string {
	switch len(found) {
	case 0:
		return "other servers, for the schema version"
	case 1:
		return fmt.Sprintf("metadata lock, held by 1 transaction: connection %d", found[0].ConnID)
	}
	var names []string
	for _, b := range found[:min(len(found), maxShownBlockers)] {
		names = append(names, strconv.FormatUint(b.ConnID, 10))
	}
	if len(found) > maxShownBlockers {
		names = append(names, "...")
	}
	return fmt.Sprintf("metadata lock, held by %d transactions: connections %s", len(found), strings.Join(names, ", "))
}
