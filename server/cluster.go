package server

import (
	"fmt"
	"net"
	"strconv"

	"github.com/pingcap/kvproto/pkg/autoid"
	autoidservice "github.com/pingcap/tidb/pkg/autoid_service"
	tidb "github.com/pingcap/tidb/pkg/config"
	"github.com/pingcap/tidb/pkg/executor/mppcoordmanager"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"google.golang.org/grpc"
)

// joinCluster adds to the gRPC server of the status port the services that a cluster
// expects of a TiDB server: AUTO_INCREMENT values of tables with AUTO_ID_CACHE=1, and
// TiFlash's reports. An embedded store needs neither.
func joinCluster(g *grpc.Server, storage tidbkv.Storage) (leave func() error, err error) {
	t := tidb.GetGlobalConfig()
	addr := net.JoinHostPort(t.AdvertiseAddress, strconv.FormatUint(uint64(t.Status.StatusPort), 10))
	mppcoordmanager.InstanceMPPCoordinatorManager.InitServerAddr(true, addr)
	backend, ok := storage.(tidbkv.EtcdBackend)
	if !ok {
		return func() error { return nil }, nil
	}
	endpoints, err := backend.EtcdAddrs()
	if err != nil {
		return nil, fmt.Errorf("path: ask for the etcd of PD: %w", err)
	}
	service := autoidservice.New(addr, endpoints, storage, backend.TLSConfig())
	autoid.RegisterAutoIDAllocServer(g, service)
	return func() error { service.Close(); return nil }, nil
}
