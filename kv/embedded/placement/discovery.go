package placement

import (
	"errors"
	"sync"

	pd "github.com/tikv/pd/client"
	"google.golang.org/grpc"
)

// GetServiceDiscovery implements pd.Client: there is no server to be found.
func (c *Client) GetServiceDiscovery() pd.ServiceDiscovery { return discovery{c.clusterID} }

// discovery implements pd.ServiceDiscovery for a PD that is in this process.
type discovery struct{ clusterID uint64 }

func (discovery) Init() error                                    { return nil }
func (discovery) Close()                                         {}
func (d discovery) GetClusterID() uint64                         { return d.clusterID }
func (discovery) GetKeyspaceID() uint32                          { return 0 }
func (discovery) GetKeyspaceGroupID() uint32                     { return 0 }
func (discovery) GetServiceURLs() []string                       { return nil }
func (discovery) GetServingEndpointClientConn() *grpc.ClientConn { return nil }
func (discovery) GetClientConns() *sync.Map                      { return &sync.Map{} }
func (discovery) GetServingURL() string                          { return "" }
func (discovery) GetBackupURLs() []string                        { return nil }
func (discovery) GetServiceClient() pd.ServiceClient             { return nil }
func (discovery) GetAllServiceClients() []pd.ServiceClient       { return nil }
func (discovery) ScheduleCheckMemberChanged()                    {}
func (discovery) CheckMemberChanged() error                      { return nil }
func (discovery) AddServingURLSwitchedCallback(...func())        {}
func (discovery) AddServiceURLsSwitchedCallback(...func())       {}

func (discovery) GetOrCreateGRPCConn(string) (*grpc.ClientConn, error) {
	return nil, errors.New("placement: PD is in this process and has no address")
}
