package server

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/pingcap/tidb/pkg/domain/infosync"
	"go.uber.org/zap"
)

const (
	// peersFor is how long the addresses of the other servers are remembered.
	peersFor = 5 * time.Second
	// peersTimeout bounds the search for them.
	peersTimeout = 3 * time.Second
)

// certified returns a function that reports whether a request is of another server of the cluster, or of a tool that has such a
// certificate. Like TiDB it does not check the certificate's intended uses: those of servers may name serving alone.
func certified(authorities *x509.CertPool) func(r *http.Request) bool {
	return func(r *http.Request) bool {
		state := tlsState(r)
		if state == nil || len(state.PeerCertificates) == 0 {
			return false
		}
		opts := x509.VerifyOptions{Roots: authorities, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
		for _, c := range state.PeerCertificates[1:] {
			opts.Intermediates.AddCert(c)
		}
		_, err := state.PeerCertificates[0].Verify(opts)
		return err == nil
	}
}

// statusPeers know the servers of a cluster without TLS, this one included, by the addresses that they have registered: the gRPC
// service of the same port trusts any caller.
type statusPeers struct {
	// servers returns the registered names or addresses.
	servers func(ctx context.Context) ([]string, error)
	// dumps says that servers look for dumps on others: an embedded store has one.
	dumps bool
	log   *zap.Logger

	mu    sync.Mutex
	known map[netip.Addr]bool
	at    time.Time
}

// registeredServers are those of etcd.
func registeredServers(ctx context.Context) ([]string, error) {
	servers, err := infosync.GetAllServerInfo(ctx)
	names := make([]string, 0, len(servers))
	for _, s := range servers {
		names = append(names, s.IP)
	}
	return names, err
}

// asks says that a request is one that servers send each other, and that a server has sent it.
func (p *statusPeers) asks(r *http.Request) bool {
	if !p.isRequest(r) {
		return false
	}
	caller, ok := callerOf(r).(*net.TCPAddr)
	return ok && p.addresses(r.Context())[caller.AddrPort().Addr().Unmap().WithZone("")]
}

// isRequest says that a request is of those that TiDB's servers send each other over HTTP, and themselves: the settings, for
// information_schema.cluster_config (pkg/executor/memtable_reader.go), and dumps that the server which was asked for them does not
// have (pkg/server/handler/optimizor/plan_replayer.go). Everything else goes by gRPC.
func (p *statusPeers) isRequest(r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	dump := strings.HasPrefix(r.URL.Path, "/plan_replayer/dump/") || strings.HasPrefix(r.URL.Path, "/optimize_trace/dump/")
	return r.URL.Path == "/config" || p.dumps && dump && r.URL.Query().Get("forward") != ""
}

// addresses are those of the servers, none if they cannot be asked for.
func (p *statusPeers) addresses(ctx context.Context) map[netip.Addr]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) < peersFor {
		return p.known
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), peersTimeout) // the answer is for other callers, too
	defer cancel()
	servers, err := p.servers(ctx)
	if err != nil {
		p.log.Warn("the other servers cannot be asked for: requests to the status port are answered to those that were known", zap.Error(err))
		p.at = time.Now()
		return p.known
	}
	known := make(map[netip.Addr]bool, len(servers))
	for _, name := range servers {
		if addr, err := netip.ParseAddr(name); err == nil {
			known[addr.Unmap()] = true
			continue
		}
		found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		if err != nil {
			p.log.Info("the address of a server is not known", zap.String("server", name), zap.Error(err))
		}
		for _, addr := range found {
			known[addr.Unmap()] = true
		}
	}
	p.known, p.at = known, time.Now()
	return known
}
