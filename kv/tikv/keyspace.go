package tikv

import (
	"fmt"
	"strings"

	"github.com/tikv/client-go/v2/tikv"
)

// keyspaceSuffix is what the names of holds end with in PD: nothing for a cluster
// without keyspaces.
func (s *Store) keyspaceSuffix() string {
	id := s.cluster.GetCodec().GetKeyspaceID()
	if id == tikv.NullspaceID {
		return ""
	}
	return fmt.Sprintf("-keyspace-%d", id)
}

// holdName undoes serviceID. The name of a service of another keyspace stays as it is.
func (s *Store) holdName(serviceID string) string {
	return strings.TrimSuffix(serviceID, s.keyspaceSuffix())
}
