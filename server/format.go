package server

import (
	"context"
	"fmt"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta"

	"fastddl/kv"
)

// bootstrapVersion is the version of the system tables that this release of TiDB makes (currentBootstrapVersion in
// pkg/session/bootstrap.go, which TiDB keeps to itself).
const bootstrapVersion = 220

// checkBootstrap refuses an embedded store whose system tables a later release has made. TiDB would open it without a word, as on
// a cluster that is upgraded node by node; here it is a folder that was opened by a later version of fastddl.
func checkBootstrap(ctx context.Context, storage tidbkv.Storage, path string) error {
	var found int64
	ctx = tidbkv.WithInternalSourceType(ctx, tidbkv.InternalTxnBootstrap)
	err := tidbkv.RunInNewTxn(ctx, storage, false, func(_ context.Context, txn tidbkv.Transaction) (err error) {
		found, err = meta.NewReader(txn).GetBootstrapVersion()
		return err
	})
	if err != nil {
		return fmt.Errorf("read the version of the system tables: %w", err)
	}
	if found > bootstrapVersion {
		return fmt.Errorf("%w: %s was written by a later version of fastddl: system tables of version %d, this version knows up to %d: open it with that version",
			kv.ErrFormat, path, found, bootstrapVersion)
	}
	return nil
}
