package ddl

import (
	"context"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/domain/infosync"
	disttaskutil "github.com/pingcap/tidb/pkg/util/disttask"
	"go.uber.org/zap"

	"fastddl/flow"
	"fastddl/internal/sleep"
)

// coresInterval is how often the number of cores that TiDB takes this node to have is checked.
const coresInterval = time.Second

// keepCores keeps the number of cores right that TiDB's distributed tasks (ADD INDEX of its own, IMPORT INTO)
// know of this node. They take GOMAXPROCS for it (GetCPUCount in pkg/util/cpu), which is more while processors are
// reserved for background work, and write it down every 90 seconds (recoverMetaLoop in
// pkg/disttask/framework/taskexecutor). A task that is submitted then asks for more slots than the node has had
// since it was started, and waits for ever.
func (d *DDL) keepCores() {
	var seen uint64
	working := true
	for sleep.For(d.ctx, coresInterval) {
		now, changed := flow.ReservedSince(seen)
		if !changed {
			continue
		}
		err := d.publishCPUCount(d.ctx)
		if err == nil {
			seen = now
		} else if working && d.ctx.Err() == nil {
			d.opts.Logger.Warn("TiDB may take this node to have more cores than it has; it is told again", zap.Error(err))
		}
		working = err == nil
	}
}

// publishCPUCount writes the number of this node's cores to TiDB's row of it, if that says more.
func (d *DDL) publishCPUCount(ctx context.Context) error {
	const more = `UPDATE mysql.dist_framework_meta SET cpu_count = %? WHERE cpu_count > %?`
	cores := flow.Cores()
	if !d.clustered() { // no other node has a row
		_, err := d.sessions.Query(ctx, more, cores, cores)
		return err
	}
	info, err := infosync.GetServerInfo()
	if err != nil {
		return fmt.Errorf("address of this node: %w", err)
	}
	_, err = d.sessions.Query(ctx, more+` AND host = %?`, cores, cores, disttaskutil.GenerateExecID(info))
	return err
}
