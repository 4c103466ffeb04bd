package sqltest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pingcap/tidb/pkg/parser/auth"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/session/txninfo"
	sessiontypes "github.com/pingcap/tidb/pkg/session/types"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	tidbutil "github.com/pingcap/tidb/pkg/util"
	"github.com/pingcap/tidb/pkg/util/sqlkiller"

	"fastddl/sql"
)

// Sessions are the sessions that a process opens itself, on a layer without a server.
// It is TiDB's session manager; through it the metadata lock sees the sessions.
type Sessions struct {
	tidbutil.SessionManager // the layer's, for all but the sessions
	layer                   *sql.Layer
	next                    atomic.Uint64

	mu   sync.Mutex
	open map[uint64]sessiontypes.Session
}

// NewSessions makes the layer one whose sessions Open opens.
func NewSessions(l *sql.Layer) *Sessions {
	domain := l.Domain().InfoSyncer()
	m := &Sessions{SessionManager: domain.GetSessionManager(), layer: l, open: make(map[uint64]sessiontypes.Session)}
	domain.SetSessionManager(m)
	return m
}

// Open opens a session of user root, as a server opens a client's. Close ends it.
func (m *Sessions) Open() (*Session, error) {
	id := m.next.Add(1)
	c, err := m.layer.Driver().OpenCtx(id, 0, mysql.DefaultCollationID, "", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	if !c.Session.AuthWithoutVerification(&auth.UserIdentity{Username: "root", Hostname: "localhost"}) {
		c.Session.Close()
		return nil, errors.New("open session: there is no user root")
	}
	s := &Session{c.Session, m}
	m.add(id, s)
	s.SetSessionManager(m)
	return s, nil
}

// Session is one of Sessions: the layer's session of a client.
type Session struct {
	sessiontypes.Session
	of *Sessions
}

// Close implements session.Session.
func (s *Session) Close() {
	s.of.remove(s.GetSessionVars().ConnectionID)
	s.Session.Close()
}

func (m *Sessions) add(id uint64, s sessiontypes.Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[id] = s
}

func (m *Sessions) remove(id uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.open, id)
}

// sessions returns the open sessions.
func (m *Sessions) sessions() []sessiontypes.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]sessiontypes.Session, 0, len(m.open))
	for _, s := range m.open {
		out = append(out, s)
	}
	return out
}

// ShowProcessList implements util.SessionManager.
func (m *Sessions) ShowProcessList() map[uint64]*tidbutil.ProcessInfo {
	out := make(map[uint64]*tidbutil.ProcessInfo)
	for _, s := range m.sessions() {
		if info := s.ShowProcess(); info != nil {
			out[info.ID] = info
		}
	}
	return out
}

// ShowTxnList implements util.SessionManager.
func (m *Sessions) ShowTxnList() []*txninfo.TxnInfo {
	var out []*txninfo.TxnInfo
	for _, s := range m.sessions() {
		if info := s.TxnInfo(); info != nil && info.ProcessInfo != nil {
			out = append(out, info)
		}
	}
	return out
}

// GetProcessInfo implements util.SessionManager.
func (m *Sessions) GetProcessInfo(id uint64) (*tidbutil.ProcessInfo, bool) {
	m.mu.Lock()
	s, ok := m.open[id]
	m.mu.Unlock()
	if !ok {
		return nil, false
	}
	info := s.ShowProcess()
	return info, info != nil
}

// Kill implements util.SessionManager. It ends the running statement.
func (m *Sessions) Kill(id uint64, _, maxExecutionTime, runaway bool) {
	m.mu.Lock()
	s, ok := m.open[id]
	m.mu.Unlock()
	if !ok {
		return
	}
	signal := sqlkiller.QueryInterrupted
	switch {
	case maxExecutionTime:
		signal = sqlkiller.MaxExecTimeExceeded
	case runaway:
		signal = sqlkiller.RunawayQueryExceeded
	}
	s.GetSessionVars().SQLKiller.SendKillSignal(signal)
}

// KillAllConnections implements util.SessionManager.
func (m *Sessions) KillAllConnections() {
	for _, s := range m.sessions() {
		atomic.StoreInt32(&s.GetSessionVars().ConnectionStatus, variable.ConnStatusShutdown)
		m.Kill(s.GetSessionVars().ConnectionID, false, false, false)
	}
}

// KillNonFlashbackClusterConn implements util.SessionManager.
func (m *Sessions) KillNonFlashbackClusterConn() { m.KillAllConnections() }
