package server

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/config"
)

// TestAdvertised: servers of a cluster of several machines must have addresses of their
// own.
func TestAdvertised(t *testing.T) {
	for _, c := range []struct {
		advertise, path string
		refused         bool
	}{
		{"127.0.0.1", "127.0.0.1:2379", false},
		{"127.0.0.1", "localhost:2379,[::1]:2380?disableGC=true", false},
		{"10.0.0.1", "pd1:2379,pd2:2379", false},
		{"db1", "10.0.0.7:2379", false},
		{"127.0.0.1", "pd1:2379", true},
		{"127.0.0.1", "127.0.0.1:2379,10.0.0.7:2379", true},
		{"localhost", "10.0.0.7", true},
		{"0.0.0.0", "10.0.0.7:2379", true},
		{"::", "pd1:2379?keyspaceName=k", true},
	} {
		err := checkAdvertised(config.Config{AdvertiseAddress: c.advertise, Path: c.path})
		if c.refused {
			require.ErrorContains(t, err, "advertise-address "+c.advertise, "%+v", c)
		} else {
			require.NoError(t, err, "%+v", c)
		}
	}
}
