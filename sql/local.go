package sql

import (
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pingcap/tidb/pkg/parser/auth"
	"github.com/pingcap/tidb/pkg/session"
	"github.com/pingcap/tidb/pkg/session/txninfo"
	sessiontypes "github.com/pingcap/tidb/pkg/session/types"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	tidbutil "github.com/pingcap/tidb/pkg/util"
	"github.com/pingcap/tidb/pkg/util/sqlkiller"
)

// localSessions are the sessions that this process opens itself, without a server.
// It is TiDB's session manager until pkg/server's takes its place; through it the
// metadata lock sees the sessions.
type localSessions struct {
	clients *clients

	mu   sync.Mutex
	next uint64
	open map[uint64]sessiontypes.Session
}

func newLocalSessions(clients *clients) *localSessions {
	return &localSessions{clients: clients, open: make(map[uint64]sessiontypes.Session)}
}

// errServed says that a server has the sessions.
var errServed = errors.New("sql: a server runs on this layer; connect to it")

// OpenSession opens a session of user root in this process. It is for use without
// a server: beside one, the metadata lock would not see it. Close ends it.
func (l *Layer) OpenSession() (sessiontypes.Session, error) {
	if l.dom.InfoSyncer().GetSessionManager() != tidbutil.SessionManager(l.local) {
		return nil, errServed
	}
	se, err := session.CreateSession(l.opts.Storage)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	if !se.AuthWithoutVerification(&auth.UserIdentity{Username: "root", Hostname: "localhost"}) {
		se.Close()
		return nil, errors.New("open session: there is no user root")
	}
	s := &localSession{l.newClient(se)}
	l.local.add(s)
	se.SetSessionManager(l.local)
	return s, nil
}

// localSession is one of localSessions.
type localSession struct{ *clientSession }

// Close implements session.Session.
func (s *localSession) Close() {
	s.layer.local.remove(s.GetSessionVars().ConnectionID)
	s.layer.clients.remove(s.clientSession)
	s.Session.Close()
}

func (m *localSessions) add(s sessiontypes.Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next++
	s.SetConnectionID(m.next)
	m.open[m.next] = s
}

func (m *localSessions) remove(id uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.open, id)
}

// sessions returns the open sessions.
func (m *localSessions) sessions() []sessiontypes.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]sessiontypes.Session, 0, len(m.open))
	for _, s := range m.open {
		out = append(out, s)
	}
	return out
}

// ShowProcessList implements util.SessionManager.
func (m *localSessions) ShowProcessList() map[uint64]*tidbutil.ProcessInfo {
	out := make(map[uint64]*tidbutil.ProcessInfo)
	for _, s := range m.sessions() {
		if info := s.ShowProcess(); info != nil {
			out[info.ID] = info
		}
	}
	return out
}

// ShowTxnList implements util.SessionManager.
func (m *localSessions) ShowTxnList() []*txninfo.TxnInfo {
	var out []*txninfo.TxnInfo
	for _, s := range m.sessions() {
		if info := s.TxnInfo(); info != nil && info.ProcessInfo != nil {
			out = append(out, info)
		}
	}
	return out
}

// GetProcessInfo implements util.SessionManager.
func (m *localSessions) GetProcessInfo(id uint64) (*tidbutil.ProcessInfo, bool) {
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
func (m *localSessions) Kill(id uint64, _, maxExecutionTime, runaway bool) {
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
func (m *localSessions) KillAllConnections() {
	for _, s := range m.sessions() {
		atomic.StoreInt32(&s.GetSessionVars().ConnectionStatus, variable.ConnStatusShutdown)
		m.Kill(s.GetSessionVars().ConnectionID, false, false, false)
	}
}

// KillNonFlashbackClusterConn implements util.SessionManager.
func (m *localSessions) KillNonFlashbackClusterConn() { m.KillAllConnections() }

// UpdateTLSConfig implements util.SessionManager. There are no connections.
func (*localSessions) UpdateTLSConfig(*tls.Config) {}

// ServerID implements util.SessionManager.
func (*localSessions) ServerID() uint64 { return 0 }

// StoreInternalSession implements util.SessionManager.
func (m *localSessions) StoreInternalSession(se any) { m.clients.addInternal(se) }

// DeleteInternalSession implements util.SessionManager.
func (m *localSessions) DeleteInternalSession(se any) { m.clients.removeInternal(se) }

// ContainsInternalSession implements util.SessionManager.
func (m *localSessions) ContainsInternalSession(se any) bool { return m.clients.hasInternal(se) }

// GetInternalSessionStartTSList implements util.SessionManager.
func (m *localSessions) GetInternalSessionStartTSList() []uint64 { return m.clients.internalStartTS() }

// CheckOldRunningTxn implements util.SessionManager.
func (m *localSessions) CheckOldRunningTxn(job2ver map[int64]int64, job2ids map[int64]string) {
	m.clients.excludeBlocked(job2ver, job2ids)
}

// GetConAttrs implements util.SessionManager.
func (*localSessions) GetConAttrs(*auth.UserIdentity) map[uint64]map[string]string { return nil }
