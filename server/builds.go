package server

import (
	"context"
	"errors"
	"fmt"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/tikv/client-go/v2/tikv"
	pd "github.com/tikv/pd/client"
	pdhttp "github.com/tikv/pd/client/http"
	"go.uber.org/zap"

	"fastddl/config"
	"fastddl/kv"
	kvtikv "fastddl/kv/tikv"
	"fastddl/kv/tikv/sstimport"
)

// tikvStorage has the methods of TiDB's storage over TiKV that are not in its interface.
type tikvStorage interface {
	tidbkv.Storage
	sstimport.Splitter
	GetPDClient() pd.Client
	GetPDHTTPClient() pdhttp.Client
	GetCodec() tikv.Codec
}

// openBuilds opens a cluster's kv.Store for index builds. It must be closed before the
// storage. Builds bound the speed at which they write files. Here that bounds the speed at
// which each store receives them, since hundreds of megabytes may have gathered.
func openBuilds(ctx context.Context, storage tidbkv.Storage, globals *config.Globals, log *zap.Logger) (kv.Store, error) {
	cluster, ok := storage.(tikvStorage)
	if !ok {
		return nil, fmt.Errorf("path: a %T is no TiKV cluster", storage)
	}
	importer, err := sstimport.New(sstimport.Options{
		PD: cluster.GetPDClient(), Codec: cluster.GetCodec(), Splitter: cluster,
		Labels: cluster.GetPDHTTPClient(), Rooms: cluster.GetPDHTTPClient(),
		WriteSpeed:    func() int64 { return globals.Int(config.ReorgMaxWriteSpeed) },
		SplitBytes:    splitBytes(ctx, cluster.GetPDClient(), log),
		RequestSource: kvtikv.RequestSource(), Logger: log.Named("import"),
	})
	if err != nil {
		return nil, err
	}
	builds, err := kvtikv.Open(storage, kvtikv.Options{Importer: importer, Logger: log.Named("tikv")})
	if err != nil {
		return nil, errors.Join(err, importer.Close())
	}
	return builds, nil
}
