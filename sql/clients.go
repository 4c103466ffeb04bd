package sql

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/tidb/pkg/infoschema"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/session/txninfo"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	tidbutil "github.com/pingcap/tidb/pkg/util"
	tikvconfig "github.com/tikv/client-go/v2/config"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/tikvrpc/interceptor"

	"fastddl/load/jobs"
)

// clients are the open sessions of clients. They are asked for the metadata lock here and not by TiDB's session manager
// (RemoveLockDDLJobs in pkg/session/session.go), which leaves out two:
//
//   - a session that executes something as internal SQL at the moment: as TRACE does with its statement
//     (pkg/executor/trace.go), and SHOW TABLE STATUS with a query of its own;
//   - a statement that TiDB cuts into batches (tidb_enable_batch_dml): behind the first commit its transaction is
//     another one that has used no table so far, and it goes on with the schema that it has begun with
//     (doBatchInsert in pkg/executor/insert_common.go, doBatchDelete in delete.go).
//
// IMPORT INTO ... FROM SELECT is outside the metadata lock by design (skipLockMDL in pkg/planner/core/preprocess.go), and
// no job of TiDB's, which a build could wait for.
//
// A server reports a schema version when no session uses an older one. Without these sessions it would report too early, and
// rows that are written after S would have no entries.
//
// TiDB's internal sessions are not asked at all. Those of TTL delete rows of clients' tables, and what they have not done to the
// index is found by the comparison with the rows, if it was done before that. So they are asked, too, while such a table has an index
// that is write-reorg.
type clients struct {
	// expires says that internal sessions may delete rows of a table, and are to be asked.
	expires func(tableID int64) bool

	mu sync.Mutex
	// imports close tables to statements that add rows; nil if TiDB runs IMPORT INTO.
	imports      *jobs.Exclusion
	open         map[*clientSession]struct{}
	internal     map[any]struct{}
	undetermined []undetermined
	// now is the clock.
	now func() time.Time
}

func newClients(expires func(tableID int64) bool) *clients {
	return &clients{expires: expires, open: make(map[*clientSession]struct{}), internal: make(map[any]struct{}), now: time.Now}
}

// undetermined is a transaction whose outcome its client does not know, because a KILL has ended its COMMIT, say. Its requests may be
// on their way to the stores. One that commits with its prewrite (in one phase, or by async commit) does so when the prewrite arrives,
// while TiDB counts its session as idle. The stores refuse the prewrite after its latest commit timestamp (calculateMaxCommitTS in
// client-go's txnkv/transaction/2pc.go). In two phases nothing commits behind S that is not seen at S: a reader of a row at S meets
// the row's lock, and moves the commit behind S.
type undetermined struct {
	// version is the schema version that it began with. TiDB no longer knows which tables it used.
	version int64
	until   time.Time
}

// mayCommit notes that a transaction that began with a schema version may still commit although its session takes it for ended.
func (c *clients) mayCommit(version int64) {
	window := tikvconfig.GetGlobalConfig().TiKVClient.AsyncCommit
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetUndetermined()
	c.undetermined = append(c.undetermined, undetermined{version, c.now().Add(window.SafeWindow + window.AllowedClockDrift)})
}

// forgetUndetermined forgets the transactions that the stores refuse by now. The caller holds mu.
func (c *clients) forgetUndetermined() {
	c.undetermined = slices.DeleteFunc(c.undetermined, func(u undetermined) bool { return c.now().After(u.until) })
}

// expires says that a table has rows that expire, and an index that becomes public next.
func (l *Layer) expires(tableID int64) bool {
	table, ok := l.dom.InfoSchema().TableByID(context.Background(), tableID)
	return ok && table.Meta().TTLInfo != nil && slices.ContainsFunc(table.Meta().Indices, func(idx *model.IndexInfo) bool {
		return idx.State == model.StateWriteReorganization
	})
}

func (c *clients) add(s *clientSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[s] = struct{}{}
}

// excludedBy makes imports that close tables to statements known. TiDB asks for the metadata lock meanwhile.
func (c *clients) excludedBy(imports *jobs.Exclusion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.imports = imports
}

func (c *clients) remove(s *clientSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, s)
}

func (c *clients) addInternal(se any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.internal[se] = struct{}{}
}

func (c *clients) removeInternal(se any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.internal, se)
}

func (c *clients) hasInternal(se any) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.internal[se]
	return ok
}

// internalStartTS are the start timestamps of the internal sessions' transactions.
func (c *clients) internalStartTS() (out []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for se := range c.internal {
		if s, ok := se.(interface{ TxnInfo() *txninfo.TxnInfo }); ok {
			if info := s.TxnInfo(); info != nil {
				out = append(out, info.StartTS)
			}
		}
	}
	return out
}

// excludeBlocked deletes from job2ver the jobs whose tables a session uses under an older version than theirs.
func (c *clients) excludeBlocked(job2ver map[int64]int64, job2ids map[int64]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetUndetermined()
	for _, u := range c.undetermined {
		maps.DeleteFunc(job2ver, func(_, version int64) bool { return u.version < version })
	}
	for s := range c.open {
		if o := s.outsideMDL.Load(); o != nil {
			maps.DeleteFunc(job2ver, func(job, version int64) bool { return o.version < version && o.uses(job2ids[job]) })
		}
		if w := s.adding.Load(); w != nil && c.imports != nil {
			maps.DeleteFunc(job2ver, func(job, version int64) bool { return w.version < version && c.imports.Concerns(job, w.tables...) })
		}
		excludeBlocked(s.GetSessionVars(), job2ver, job2ids, func(int64) bool { return true })
	}
	for se := range c.internal {
		if s, ok := se.(interface{ GetSessionVars() *variable.SessionVars }); ok {
			excludeBlocked(s.GetSessionVars(), job2ver, job2ids, c.expires)
		}
	}
}

// excludeBlocked deletes from job2ver the jobs whose tables a session uses under an older version than theirs, if asked is true of the table.
func excludeBlocked(vars *variable.SessionVars, job2ver map[int64]int64, job2ids map[int64]string, asked func(tableID int64) bool) {
	vars.TxnCtxMu.Lock()
	defer vars.TxnCtxMu.Unlock()
	if vars.TxnCtx == nil {
		return
	}
	vars.GetRelatedTableForMDL().Range(func(table, used any) bool {
		maps.DeleteFunc(job2ver, func(job, version int64) bool {
			_, concerns := tidbutil.Str2Int64Map(job2ids[job])[table.(int64)]
			return concerns && used.(int64) < version && asked(table.(int64))
		})
		return true
	})
}

// commitsOf watches the commits of a statement that may commit what it, or its transaction, has written; nil for others. The error need
// not reach the statement: TRACE keeps it to itself. So what counts is that the store does not answer.
func (s *clientSession) commitsOf(stmt ast.StmtNode) interceptor.RPCInterceptor {
	if p := s.prepared(stmt); p != nil {
		stmt = p.PreparedAst.Stmt
	}
	switch stmt.(type) {
	case *ast.SelectStmt, *ast.SetOprStmt, *ast.ShowStmt, *ast.RollbackStmt:
		return nil
	case *ast.InsertStmt, *ast.UpdateStmt, *ast.DeleteStmt:
		if s.GetSessionVars().InTxn() {
			return nil
		}
	}
	version := s.beganWith()
	return interceptor.NewRPCInterceptor("fastddl-commits", func(next interceptor.RPCInterceptorFunc) interceptor.RPCInterceptorFunc {
		return func(target string, req *tikvrpc.Request) (resp *tikvrpc.Response, err error) {
			if !commitsItself(req) {
				return next(target, req)
			}
			answered := false
			defer func() { // also after a panic
				if !answered {
					s.layer.clients.mayCommit(version)
				}
			}()
			resp, err = next(target, req)
			answered = err == nil
			return resp, err
		}
	})
}

// commitsItself reports whether a request commits when it is executed, without another one.
func commitsItself(req *tikvrpc.Request) bool {
	prewrite, ok := req.Req.(*kvrpcpb.PrewriteRequest)
	return ok && (prewrite.TryOnePc || prewrite.UseAsyncCommit)
}

// watched returns a context in which commits sees the requests.
func watched(ctx context.Context, commits interceptor.RPCInterceptor) context.Context {
	if commits == nil {
		return ctx
	}
	return interceptor.WithRPCInterceptor(ctx, commits)
}

// beganWith is the schema version that the transaction began with, or begins with now at the earliest.
func (s *clientSession) beganWith() int64 {
	if s.GetSessionVars().InTxn() {
		return s.schemaVersion()
	}
	return s.layer.dom.InfoSchema().SchemaMetaVersion()
}

// schemaVersion is the schema version that the session's transaction began with.
func (s *clientSession) schemaVersion() int64 {
	if schema, ok := s.GetSessionVars().TxnCtx.InfoSchema.(infoschema.InfoSchema); ok {
		return schema.SchemaMetaVersion()
	}
	return 0
}

// outsideMDL is a statement that uses a table outside the metadata lock.
type outsideMDL struct {
	// version is the schema version that it has begun with, or an older one.
	version int64
	table   int64 // 0 for any
}

// uses reports whether the statement may use one of the tables, which are listed as in mysql.tidb_mdl_info.
func (o *outsideMDL) uses(tables string) bool {
	_, listed := tidbutil.Str2Int64Map(tables)[o.table]
	return listed || o.table == 0
}

// outsideMDLOf returns the use of a table that the metadata lock does not see; nil if it sees all of a statement. Variables that hints
// of the statement and of its binding set decide whether TiDB cuts it into batches. So where batches are allowed at all, each statement
// that may be cut counts as cut.
func (s *clientSession) outsideMDLOf(stmt ast.StmtNode) (o *outsideMDL) {
	s.executes(stmt, func(inner ast.StmtNode) {
		switch x := inner.(type) {
		case *ast.InsertStmt, *ast.DeleteStmt:
			if variable.EnableBatchDML.Load() {
				o = &outsideMDL{version: s.layer.dom.InfoSchema().SchemaMetaVersion()}
			}
		case *ast.ImportIntoStmt:
			if x.Select == nil || o != nil {
				return
			}
			schema := s.layer.dom.InfoSchema()
			if table := s.tableNamed(schema, x.Table); table != nil {
				o = &outsideMDL{version: schema.SchemaMetaVersion(), table: table.ID}
			}
		}
	})
	return o
}

// tableNamed returns the table of a name in a statement, nil if there is none.
func (s *clientSession) tableNamed(schema infoschema.InfoSchema, name *ast.TableName) *model.TableInfo {
	db := name.Schema
	if db.L == "" {
		db = pmodel.NewCIStr(s.GetSessionVars().CurrentDB)
	}
	table, err := schema.TableByName(context.Background(), db, name.Name)
	if err != nil {
		return nil
	}
	return table.Meta()
}

// SessionManager returns the session manager of a server whose sessions the layer's driver makes. It asks the layer's clients for the
// metadata lock.
func (l *Layer) SessionManager(of tidbutil.SessionManager) tidbutil.SessionManager {
	return &sessionManager{of, l.clients}
}

type sessionManager struct {
	tidbutil.SessionManager
	clients *clients
}

// CheckOldRunningTxn implements util.SessionManager. All sessions of the server are the layer's clients.
func (m *sessionManager) CheckOldRunningTxn(job2ver map[int64]int64, job2ids map[int64]string) {
	m.clients.excludeBlocked(job2ver, job2ids)
}

// StoreInternalSession implements util.SessionManager.
func (m *sessionManager) StoreInternalSession(se any) {
	m.SessionManager.StoreInternalSession(se)
	m.clients.addInternal(se)
}

// DeleteInternalSession implements util.SessionManager.
func (m *sessionManager) DeleteInternalSession(se any) {
	m.SessionManager.DeleteInternalSession(se)
	m.clients.removeInternal(se)
}
