package cluster

import (
	"testing"

	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"fastddl/tests/cluster/standin"
)

// etcdOf is a client of the cluster's etcd.
func etcdOf(t *testing.T, pd *standin.Endpoint) *clientv3.Client {
	t.Helper()
	cli, err := clientv3.New(clientv3.Config{Endpoints: []string{pd.Addr}, DialTimeout: hangTimeout})
	require.NoError(t, err)
	t.Cleanup(func() { _ = cli.Close() })
	return cli
}

// TestIncompatibleServersAreRefused: a server does not join a cluster with a SQL server that is too old, or
// newer than itself. It says which, and leaves nothing behind.
func TestIncompatibleServersAreRefused(t *testing.T) {
	t.Parallel()
	c := startEmptyCluster(t)
	pd, err := c.Open()
	require.NoError(t, err)
	cli := etcdOf(t, pd)
	for version, want := range map[string]string{
		"5.7.25-TiDB-v6.5.0": "v7.5 or later is needed", "8.0.11-TiDB-v9.0.0": "may be newer than this server",
	} {
		_, err = cli.Put(t.Context(), "/tidb/server/info/other", `{"ip":"10.0.0.9","listening_port":4000,"version":"`+version+`"}`)
		require.NoError(t, err)
		before, err := cli.Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		require.NoError(t, err)
		log := refused(t, "--path", pd.Addr)
		require.Contains(t, log, "SQL server 10.0.0.9:4000 is of version "+version)
		require.Contains(t, log, want)
		require.NotContains(t, log, "bootstrap")
		after, err := cli.Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		require.NoError(t, err)
		require.Equal(t, before.Count, after.Count, "%v", after.Kvs)
	}
	_, err = cli.Delete(t.Context(), "/tidb/server/info/other")
	require.NoError(t, err)
	startNode(t, c).open().exec("CREATE TABLE t (id INT PRIMARY KEY)")
}

// TestMissingKeyspaceEndsTheStart: a keyspace that the cluster does not have ends the start with its name.
func TestMissingKeyspaceEndsTheStart(t *testing.T) {
	t.Parallel()
	c := startEmptyCluster(t)
	pd, err := c.Open()
	require.NoError(t, err)
	log := refused(t, "--path", pd.Addr+"?keyspaceName=nowhere")
	require.Contains(t, log, "fastddl: path: ")
	require.Contains(t, log, "nowhere")
}

// TestKeyspaceThatIsNotEnabled: PD's client takes any keyspace that there is, also one that is being deleted.
func TestKeyspaceThatIsNotEnabled(t *testing.T) {
	t.Parallel()
	var metas []*keyspacepb.KeyspaceMeta
	for state, name := range keyspacepb.KeyspaceState_name {
		metas = append(metas, &keyspacepb.KeyspaceMeta{Id: uint32(state) + 1, Name: "k" + name, State: keyspacepb.KeyspaceState(state)})
	}
	pd, err := startStandIn(t, standin.Options{Keyspaces: metas}).Open()
	require.NoError(t, err)
	cli := etcdOf(t, pd)
	for _, meta := range metas {
		if meta.State == keyspacepb.KeyspaceState_ENABLED {
			continue
		}
		log := refused(t, "--path", pd.Addr+"?keyspaceName="+meta.Name)
		require.Contains(t, log, `fastddl: path: keyspace "`+meta.Name+`" is not enabled: PD says `+meta.State.String())
		require.NotContains(t, log, "bootstrap")
	}
	left, err := cli.Get(t.Context(), "/keyspaces/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Empty(t, left.Kvs)
}

// TestOwnerOfAnotherKeyspaceEndsTheStart: a server does not wait for a DDL owner that is another keyspace's.
func TestOwnerOfAnotherKeyspaceEndsTheStart(t *testing.T) {
	t.Parallel()
	c := startEmptyCluster(t)
	pd, err := c.Open()
	require.NoError(t, err)
	cli := etcdOf(t, pd)
	for key, value := range map[string]string{"/tidb/ddl/fg/owner/1": "candidate", "/keyspaces/tidb/7/tidb/server/info/candidate": "{}"} {
		_, err = cli.Put(t.Context(), key, value)
		require.NoError(t, err)
	}
	log := refused(t, "--path", pd.Addr)
	require.Contains(t, log, "fastddl: path: a SQL server of keyspace 7 runs over this PD, this one is of no keyspace")
	require.NotContains(t, log, "bootstrap")
	_, err = cli.Delete(t.Context(), "/tidb/ddl/fg/owner/1") // it has stopped
	require.NoError(t, err)
	startNode(t, c)
}
