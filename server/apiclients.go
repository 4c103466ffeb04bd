package server

import (
	"maps"

	"github.com/pingcap/tidb/pkg/parser/auth"
	tidbserver "github.com/pingcap/tidb/pkg/server"
	"github.com/pingcap/tidb/pkg/session/txninfo"
	"github.com/pingcap/tidb/pkg/util"
)

// apiProgram is the program_name of the API's sessions, as connection attribute.
const apiProgram = "fastddl-api"

// withAPI is a session manager of TiDB's that has the API's sessions, too: SHOW PROCESSLIST lists them, KILL ends them.
type withAPI struct {
	util.SessionManager
	api *apiSessions
}

// ShowProcessList implements util.SessionManager.
func (m withAPI) ShowProcessList() map[uint64]*util.ProcessInfo {
	list := m.SessionManager.ShowProcessList()
	m.api.each(func(id uint64, c *tidbserver.TiDBContext) {
		if info := c.ShowProcess(); info != nil {
			list[id] = info
		}
	})
	return list
}

// ShowTxnList implements util.SessionManager.
func (m withAPI) ShowTxnList() []*txninfo.TxnInfo {
	list := m.SessionManager.ShowTxnList()
	m.api.each(func(_ uint64, c *tidbserver.TiDBContext) {
		if info := c.TxnInfo(); info != nil && info.ProcessInfo != nil {
			list = append(list, info)
		}
	})
	return list
}

// GetProcessInfo implements util.SessionManager.
func (m withAPI) GetProcessInfo(id uint64) (*util.ProcessInfo, bool) {
	if s, ok := m.api.find(id); ok {
		if c := s.ctx.Load(); c != nil {
			info := c.ShowProcess()
			return info, info != nil // what asks uses it
		}
	}
	return m.SessionManager.GetProcessInfo(id)
}

// Kill implements util.SessionManager.
func (m withAPI) Kill(id uint64, query, maxExecutionTime, runaway bool) {
	if s, ok := m.api.find(id); ok {
		s.kill(query || maxExecutionTime || runaway)
		return
	}
	m.SessionManager.Kill(id, query, maxExecutionTime, runaway)
}

// KillAllConnections implements util.SessionManager.
func (m withAPI) KillAllConnections() {
	m.killAll()
	m.SessionManager.KillAllConnections()
}

// killAll ends the API's sessions.
func (m withAPI) killAll() {
	var ids []uint64
	m.api.each(func(id uint64, _ *tidbserver.TiDBContext) { ids = append(ids, id) })
	for _, id := range ids {
		m.Kill(id, false, false, false)
	}
}

// KillNonFlashbackClusterConn implements util.SessionManager. No session of the API executes FLASHBACK CLUSTER.
func (m withAPI) KillNonFlashbackClusterConn() {
	m.killAll()
	m.SessionManager.KillNonFlashbackClusterConn()
}

// GetConAttrs implements util.SessionManager.
func (m withAPI) GetConAttrs(user *auth.UserIdentity) map[uint64]map[string]string {
	list := maps.Clone(m.SessionManager.GetConAttrs(user))
	if list == nil {
		list = make(map[uint64]map[string]string)
	}
	m.api.each(func(id uint64, c *tidbserver.TiDBContext) {
		own := c.GetSessionVars().User
		if own == nil || user != nil && (user.Username != own.Username || user.Hostname != own.Hostname) {
			return
		}
		list[id] = map[string]string{"program_name": apiProgram}
	})
	return list
}

// SetSessionManager implements sessionctx.Context. What a client's statements ask for other clients has those of the API.
func (s *guardedSession) SetSessionManager(of util.SessionManager) {
	if sessions := s.guard.api.Load(); sessions != nil && of != nil {
		of = withAPI{of, sessions}
	}
	s.Session.SetSessionManager(of)
}
