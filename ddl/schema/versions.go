package schema

import (
	"context"
	"fmt"
	"sync"

	"github.com/pingcap/tidb/pkg/ddl/schemaver"
	ddlutil "github.com/pingcap/tidb/pkg/ddl/util"
	"github.com/pingcap/tidb/pkg/domain"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"fastddl/ddl/job"
)

// Versions is how schema versions are announced to all servers of the cluster, plain
// tidb-servers included, and waited for: TiDB's own syncer.
//
// On a cluster the servers report to etcd. What they report is collected by a loop that
// TiDB runs only where it owns the DDL (pkg/ddl/job_scheduler.go), so this is a syncer of
// our own. It must not be initialised: then it would be one more server to be waited for.
type Versions struct {
	syncer schemaver.Syncer
	etcd   *clientv3.Client // nil if there is one server only

	cancel context.CancelFunc
	loop   sync.WaitGroup
}

// StartVersions starts collecting what the servers report. contain runs a function and makes an error of a panic in it.
func StartVersions(dom *domain.Domain, contain func(what string, fn func() error) error) *Versions {
	tidb := dom.DDL()
	v := &Versions{syncer: tidb.SchemaSyncer(), etcd: dom.GetEtcdClient()}
	var ctx context.Context
	ctx, v.cancel = context.WithCancel(context.Background())
	if v.etcd == nil {
		return v
	}
	v.syncer = schemaver.NewEtcdSyncer(v.etcd, tidb.GetID())
	v.loop.Go(func() {
		_ = contain("the collection of schema versions", func() error { v.syncer.SyncJobSchemaVerLoop(ctx); return nil })
	})
	return v
}

// Stop ends the collection.
func (v *Versions) Stop() {
	v.cancel()
	v.loop.Wait()
}

// Forget removes what the servers have reported for a job that has ended. What stays is
// harmless.
func (v *Versions) Forget(ctx context.Context, r *job.Record, log *zap.Logger) {
	if v.etcd == nil {
		return
	}
	if _, err := v.etcd.Delete(ctx, fmt.Sprintf("%s/%d/", ddlutil.DDLAllSchemaVersionsByJob, r.RowID), clientv3.WithPrefix()); err != nil {
		log.Info("what the servers have reported of their schema stays in etcd", zap.Int64("job", r.ID), zap.Error(err))
	}
}
