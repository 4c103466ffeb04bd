package status

import (
	"context"
	"fmt"
	"strconv"
	"time"

	sess "github.com/pingcap/tidb/pkg/ddl/session"
	"github.com/pingcap/tidb/pkg/domain/infosync"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/util"
	"github.com/tikv/client-go/v2/oracle"
	"go.uber.org/zap"

	"fastddl/ddl/job"
	"fastddl/ddl/session"
	"fastddl/internal/sleep"
)

// Transactions of other servers of the cluster that a job waits for, plain ones included.
// They are looked at and ended by TiDB's own means, as a user would: by its tables of the
// cluster, and by KILL.

const (
	// elsewhereInterval is how often the other servers are asked. A server that hangs holds up the
	// answer of all.
	elsewhereInterval = time.Second
	// staleAfter is how long what was seen there is shown, if no answer follows.
	staleAfter = 5 * time.Second

	// transactionsElsewhere are those that use a table. TIME of a session that sleeps is since
	// when, in seconds.
	transactionsElsewhere = `SELECT t.session_id, t.id, t.user, t.db, t.mem_buffer_keys, p.command, p.time, p.info
		FROM information_schema.cluster_tidb_trx t LEFT JOIN information_schema.cluster_processlist p ON p.id = t.session_id
		WHERE FIND_IN_SET(%?, t.related_table_ids)`
)

// watchElsewhere sends the transactions of other servers that use a table and began before
// a moment, again and again until ctx ends. It returns nil if there are no others.
func (w *Waits) watchElsewhere(ctx context.Context, tableID int64, before time.Time) <-chan []blocker {
	if !w.Clustered {
		return nil
	}
	found := make(chan []blocker)
	poll := func() error {
		for sleep.For(ctx, elsewhereInterval) {
			others, err := w.blockersElsewhere(ctx, tableID, before)
			if err != nil && ctx.Err() == nil {
				w.Logger.Info("cannot look at the transactions of other servers", zap.Error(err))
				continue
			}
			select {
			case found <- others:
			case <-ctx.Done():
			}
		}
		return nil
	}
	w.Spawn(func() {
		_ = w.Contain("the look at the transactions of other servers", poll) // it fails by a panic only, which is logged
	})
	return found
}

// blockersElsewhere looks once. A server that does not answer is left out.
func (w *Waits) blockersElsewhere(ctx context.Context, tableID int64, before time.Time) ([]blocker, error) {
	rows, err := w.Sessions.Query(ctx, transactionsElsewhere, strconv.FormatInt(tableID, 10))
	if err != nil {
		return nil, err
	}
	sm := w.Domain.InfoSyncer().GetSessionManager()
	if sm == nil {
		return nil, nil
	}
	var found []blocker
	for _, row := range rows {
		conn, started := row.GetUint64(0), oracle.GetTimeFromTS(row.GetUint64(1))
		if _, here := sm.GetProcessInfo(conn); here || !started.Before(before) {
			continue
		}
		b := blocker{
			Blocker: job.Blocker{ConnID: conn, User: session.TextAt(row, 2), Age: time.Since(started), Keys: uint64(max(row.GetInt64(4), 0))},
			db:      session.TextAt(row, 3), started: started, elsewhere: true, sql: withoutLiterals(session.TextAt(row, 7)),
		}
		if session.TextAt(row, 5) == mysql.Command2Str[mysql.ComSleep] {
			b.Idle = max(time.Duration(row.GetInt64(6))*time.Second, 1)
		}
		found = append(found, b)
	}
	return found, nil
}

// olderElsewhere are the transactions that use a table and began before a snapshot.
const olderElsewhere = `SELECT 1 FROM information_schema.cluster_tidb_trx WHERE id < %? AND FIND_IN_SET(%?, related_table_ids) LIMIT 1`

// hasOlderElsewhere is HasOlder for all servers of a cluster. One that does not answer is
// left out.
func (w *Waits) hasOlderElsewhere(ctx context.Context, tableID int64, snapshotTS uint64) bool {
	servers, err := infosync.GetAllServerInfo(ctx)
	if err == nil && len(servers) < 2 {
		return false
	}
	rows, err := w.Sessions.Query(ctx, olderElsewhere, snapshotTS, strconv.FormatInt(tableID, 10))
	if err != nil && ctx.Err() == nil {
		w.Logger.Info("cannot look at the transactions of other servers", zap.Error(err))
	}
	return len(rows) > 0
}

// killElsewhere ends a session of another server.
func (w *Waits) killElsewhere(ctx context.Context, sm util.SessionManager, conn uint64) error {
	return w.Sessions.With(func(se *sess.Session) error {
		owner, ok := se.Context.(interface{ SetSessionManager(util.SessionManager) })
		if !ok {
			return fmt.Errorf("a %T does not know of other servers", se.Context)
		}
		// It finds out by the session manager that the connection is not one of this server.
		defer owner.SetSessionManager(se.GetSessionManager())
		owner.SetSessionManager(sm)
		_, err := se.Execute(session.Internal(ctx), fmt.Sprintf("KILL %d", conn), "index_build")
		return err
	})
}
