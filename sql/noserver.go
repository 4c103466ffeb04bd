package sql

import (
	"crypto/tls"

	"github.com/pingcap/tidb/pkg/parser/auth"
	"github.com/pingcap/tidb/pkg/session/txninfo"
	tidbutil "github.com/pingcap/tidb/pkg/util"
)

// noServer is TiDB's session manager until a server's takes its place: there are no
// sessions but TiDB's internal ones.
type noServer struct{ clients *clients }

// ShowProcessList implements util.SessionManager.
func (*noServer) ShowProcessList() map[uint64]*tidbutil.ProcessInfo {
	return make(map[uint64]*tidbutil.ProcessInfo)
}

// ShowTxnList implements util.SessionManager.
func (*noServer) ShowTxnList() []*txninfo.TxnInfo { return nil }

// GetProcessInfo implements util.SessionManager.
func (*noServer) GetProcessInfo(uint64) (*tidbutil.ProcessInfo, bool) { return nil, false }

// Kill implements util.SessionManager.
func (*noServer) Kill(uint64, bool, bool, bool) {}

// KillAllConnections implements util.SessionManager.
func (*noServer) KillAllConnections() {}

// KillNonFlashbackClusterConn implements util.SessionManager.
func (*noServer) KillNonFlashbackClusterConn() {}

// UpdateTLSConfig implements util.SessionManager.
func (*noServer) UpdateTLSConfig(*tls.Config) {}

// ServerID implements util.SessionManager.
func (*noServer) ServerID() uint64 { return 0 }

// StoreInternalSession implements util.SessionManager.
func (m *noServer) StoreInternalSession(se any) { m.clients.addInternal(se) }

// DeleteInternalSession implements util.SessionManager.
func (m *noServer) DeleteInternalSession(se any) { m.clients.removeInternal(se) }

// ContainsInternalSession implements util.SessionManager.
func (m *noServer) ContainsInternalSession(se any) bool { return m.clients.hasInternal(se) }

// GetInternalSessionStartTSList implements util.SessionManager.
func (m *noServer) GetInternalSessionStartTSList() []uint64 { return m.clients.internalStartTS() }

// CheckOldRunningTxn implements util.SessionManager.
func (m *noServer) CheckOldRunningTxn(job2ver map[int64]int64, job2ids map[int64]string) {
	m.clients.excludeBlocked(job2ver, job2ids)
}

// GetConAttrs implements util.SessionManager.
func (*noServer) GetConAttrs(*auth.UserIdentity) map[uint64]map[string]string { return nil }
