package server

import (
	"sync"
	"time"

	"github.com/pingcap/tidb/pkg/parser/auth"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/session/txninfo"
	"github.com/pingcap/tidb/pkg/util"
)

// drainInterval is how often a server that stops looks whether its clients' statements have ended.
const drainInterval = 10 * time.Millisecond

// clientList is the session manager of TiDB's server for background readers of the list of clients, and for other nodes.
// When TiDB ends idle clients, it deletes them from its map under a read lock (KillAllConnections in pkg/server/server.go),
// and a map that is changed while it is read ends the process. So these readers wait then. A client's own statement, such as
// SHOW PROCESSLIST, reads TiDB's server directly, and may: one that runs then began after all others had ended.
type clientList struct {
	util.SessionManager
	mu sync.RWMutex // held exclusively while clients are taken out
}

// end waits up to timeout until no client has a statement or a transaction. Then drain ends all clients, within the rest
// of the time.
func (l *clientList) end(timeout time.Duration, drain func(rest time.Duration)) {
	deadline := time.Now().Add(timeout)
	for l.busy() && time.Now().Before(deadline) {
		time.Sleep(min(drainInterval, time.Until(deadline)))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	drain(max(0, time.Until(deadline)))
}

// busy reports whether a client has a statement or a transaction.
func (l *clientList) busy() bool {
	processes := l.ShowProcessList() // and TiDB's own, which are not waited for
	for id := range l.GetConAttrs(nil) {
		if info := processes[id]; info != nil && (info.Command != mysql.ComSleep || info.State&mysql.ServerStatusInTrans != 0) {
			return true
		}
	}
	return false
}

// ShowProcessList implements util.SessionManager.
func (l *clientList) ShowProcessList() map[uint64]*util.ProcessInfo {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.SessionManager.ShowProcessList()
}

// ShowTxnList implements util.SessionManager.
func (l *clientList) ShowTxnList() []*txninfo.TxnInfo {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.SessionManager.ShowTxnList()
}

// GetProcessInfo implements util.SessionManager.
func (l *clientList) GetProcessInfo(id uint64) (*util.ProcessInfo, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.SessionManager.GetProcessInfo(id)
}

// Kill implements util.SessionManager.
func (l *clientList) Kill(id uint64, query, maxExecutionTime, runaway bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	l.SessionManager.Kill(id, query, maxExecutionTime, runaway)
}

// GetConAttrs implements util.SessionManager.
func (l *clientList) GetConAttrs(user *auth.UserIdentity) map[uint64]map[string]string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.SessionManager.GetConAttrs(user)
}
