package ddl

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/session/txninfo"
	"github.com/pingcap/tidb/pkg/util"
	"github.com/tikv/client-go/v2/oracle"

	"fastddl/config"
	"fastddl/ddl/job"
	"fastddl/event"
)

const (
	// blockerInterval is how often the transactions that a job waits for are looked
	// at, the first time after firstBlockerLook.
	blockerInterval  = 200 * time.Millisecond
	firstBlockerLook = 50 * time.Millisecond
	// maxShownBlockers is how many of them are named.
	maxShownBlockers = 3
)

// blocker is a transaction of this server that uses a table which a job waits for.
type blocker struct {
	connID  uint64
	started time.Time
	// idle is how long the session has run no statement; 0 while it does.
	idle time.Duration
	// sql is the statement that runs; digest is that of the transaction's last one.
	sql, digest string
}

// blockers returns the transactions that use a table and began before a moment,
// the oldest first.
func blockers(sm util.SessionManager, tableID int64, before, now time.Time) []blocker {
	var found []blocker
	for _, info := range sm.ShowTxnList() {
		if info == nil || info.StartTS == 0 || info.ProcessInfo == nil {
			continue
		}
		started := oracle.GetTimeFromTS(info.StartTS)
		if _, uses := info.ProcessInfo.RelatedTableIDs[tableID]; uses && started.Before(before) {
			found = append(found, describeBlocker(sm, info, started, now))
		}
	}
	slices.SortFunc(found, func(a, b blocker) int { return a.started.Compare(b.started) })
	return found
}

func describeBlocker(sm util.SessionManager, info *txninfo.TxnInfo, started, now time.Time) blocker {
	b := blocker{connID: info.ProcessInfo.ConnectionID, started: started}
	if n := len(info.AllSQLDigests); n > 0 {
		b.digest = info.AllSQLDigests[n-1]
	}
	if p, ok := sm.GetProcessInfo(b.connID); ok && p != nil {
		b.sql = p.Info
		if p.Command == mysql.ComSleep {
			b.idle = now.Sub(p.Time)
		}
	}
	return b
}

// watchBlockers tells who a job waits for, and ends the sessions of those that have
// been idle for longer than is allowed.
func (t *task) watchBlockers(ctx context.Context, r *job.Record) {
	start := time.Now()
	told := false
	defer t.view.setWait("")
	for wait := firstBlockerLook; sleep(ctx, wait); wait = blockerInterval {
		sm := t.d.opts.Domain.InfoSyncer().GetSessionManager()
		if sm == nil {
			continue
		}
		now := time.Now()
		found := blockers(sm, r.TableID, start, now)
		t.view.setWait(blockersText(found))
		if !told {
			told = true
			t.emit(event.LockWait{Job: event.Job{ID: t.id}, Waited: now.Sub(start), Blockers: blockerNames(found)})
		}
		t.endIdle(ctx, sm, r, found, now)
	}
}

// endIdle ends the sessions of idle blockers.
func (t *task) endIdle(ctx context.Context, sm util.SessionManager, r *job.Record, found []blocker, now time.Time) {
	limit := t.d.opts.Globals.Duration(config.IdleBlockerTimeout)
	for _, b := range found {
		if limit <= 0 || b.idle < limit {
			continue
		}
		sm.Kill(b.connID, false, false, false)
		t.emit(event.IdleBlockerEnded{
			Job: event.Job{ID: t.id}, Schema: r.DB, Table: r.Table,
			ConnID: b.connID, Age: now.Sub(b.started), Idle: b.idle, SQL: t.d.lastStatement(ctx, b),
		})
	}
}

// lastStatement is the last statement of a session that runs none, without its
// literals: that is how TiDB remembers statements.
func (d *DDL) lastStatement(ctx context.Context, b blocker) string {
	if b.sql != "" || b.digest == "" {
		return b.sql
	}
	rows, err := d.query(ctx, `SELECT digest_text FROM information_schema.statements_summary WHERE digest = %? LIMIT 1`, b.digest)
	if err != nil || len(rows) == 0 {
		return "" // it is not remembered any more
	}
	return rows[0].GetString(0)
}

func blockerNames(found []blocker) []string {
	names := make([]string, len(found))
	for i, b := range found {
		names[i] = fmt.Sprintf("connection %d", b.connID)
	}
	return names
}

// blockersText says what a job waits for.
func blockersText(found []blocker) string {
	switch len(found) {
	case 0:
		return "other servers, for the schema version"
	case 1:
		return fmt.Sprintf("metadata lock, held by 1 transaction: connection %d", found[0].connID)
	}
	var names []string
	for _, b := range found[:min(len(found), maxShownBlockers)] {
		names = append(names, strconv.FormatUint(b.connID, 10))
	}
	if len(found) > maxShownBlockers {
		names = append(names, "...")
	}
	return fmt.Sprintf("metadata lock, held by %d transactions: connections %s", len(found), strings.Join(names, ", "))
}
