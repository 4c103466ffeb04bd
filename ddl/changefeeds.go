package ddl

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/util/cdcutil"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// changefeedsTimeout is how long etcd has to answer what changefeeds there are.
const changefeedsTimeout = 10 * time.Second

// replicated says which changefeeds take statements from the cluster; it is empty if there is none. TiCDC knows a
// statement by the job of TiDB's that has executed it, and would leave one of ours out: the index, and all columns that
// the same statement adds, with their values.
func (d *DDL) replicated(ctx context.Context) (reason string) {
	etcd := d.opts.Domain.GetEtcdClient()
	if etcd == nil {
		return ""
	}
	names, err := changefeeds(ctx, etcd)
	switch {
	case err != nil:
		return fmt.Sprintf("it is not known whether TiCDC takes statements from the cluster: %v", err)
	case len(names) > 0:
		return "TiCDC takes statements from TiDB only, for the changefeeds " + strings.Join(names, ", ")
	}
	return ""
}

// changefeeds returns the names of the changefeeds of a cluster. The client's keys lie below the keyspace, if there is one
// (SetEtcdCliByNamespace of TiDB). Those of TiCDC do not: it names the keyspace where others name a namespace of their own, so
// that those of all of them are taken.
func changefeeds(ctx context.Context, client *clientv3.Client) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, changefeedsTimeout)
	defer cancel()
	found, err := clientv3.NewKV(client).Get(ctx, cdcutil.CDCPrefix, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	for _, pair := range found.Kvs {
		if name := changefeedOf(string(pair.Key), pair.Value); name != "" {
			names = append(names, name)
		}
	}
	return names, nil
}

// changefeedOf is the name of the changefeed that is described under a key of etcd; empty if there is none, or if it has
// ended for good. TiDB's own search (cdcutil.GetRunningChangefeeds) does not know all states: not "pending", in which a
// changefeed waits after an error.
func changefeedOf(key string, value []byte) string {
	// TiCDC writes CDCPrefix, the cluster and the namespace, until v6.1 neither of these, then ChangefeedPath and the name. A copy that
	// an upgrade has left is elsewhere (https://github.com/pingcap/tiflow/issues/9807).
	owner, name, ok := strings.Cut(key[len(cdcutil.CDCPrefix)-1:], cdcutil.ChangefeedPath)
	owner = strings.TrimPrefix(owner, "/")
	if !ok || owner != "" && strings.Count(owner, "/") != 1 || strings.HasPrefix(owner, "__backup__") {
		return ""
	}
	var info struct {
		State string `json:"state"`
	}
	// What cannot be read may be one.
	if err := json.Unmarshal(value, &info); err == nil && (info.State == "finished" || info.State == "removed") {
		return ""
	}
	return path.Join(owner, name)
}
