package server

import (
	"net/http"
	"net/http/pprof"

	"github.com/gorilla/mux"
	"github.com/pingcap/fn"
	tidb "github.com/pingcap/tidb/pkg/config"
	"github.com/pingcap/tidb/pkg/domain"
	"github.com/pingcap/tidb/pkg/domain/infosync"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/server/handler"
	"github.com/pingcap/tidb/pkg/server/handler/extractorhandler"
	"github.com/pingcap/tidb/pkg/server/handler/optimizor"
	"github.com/pingcap/tidb/pkg/server/handler/tikvhandler"
	"github.com/pingcap/tidb/pkg/store/helper"
	"github.com/pingcap/tidb/pkg/util/cpuprofile"

	"fastddl/config"
)

// debugRoutes returns what adds profiles and TiDB's HTTP API to a status server.
// None of its handlers checks the caller: statusGuard does.
func debugRoutes(cfg config.Config, storage helper.Storage, dom *domain.Domain) func(*mux.Router) {
	return func(r *mux.Router) {
		addProfiles(r)
		addStatistics(r, dom, cfg.Store == config.StoreTiKV)
		tool := handler.NewTikvHandlerTool(storage)
		addSchema(r, tool)
		addVersions(r, tool)
		if cfg.Store == config.StoreTiKV {
			addRegions(r, tool)
		}
	}
}

func addProfiles(r *mux.Router) {
	r.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	r.HandleFunc("/debug/pprof/profile", cpuprofile.ProfileHTTPHandler)
	r.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	r.HandleFunc("/debug/pprof/trace", pprof.Trace)
	r.PathPrefix("/debug/pprof/").HandlerFunc(pprof.Index)
}

// addStatistics adds statistics and dumps. Only a cluster has other servers that may have a dump: TiDB dereferences nil where it looks
// for them beside an embedded store.
func addStatistics(r *mux.Router, dom *domain.Domain, clustered bool) {
	t := tidb.GetGlobalConfig()
	var others *infosync.InfoSyncer
	if clustered {
		others = dom.InfoSyncer()
	}
	r.Handle("/stats/dump/{db}/{table}", optimizor.NewStatsHandler(dom))
	r.Handle("/stats/dump/{db}/{table}/{snapshot}", optimizor.NewStatsHistoryHandler(dom))
	r.Handle("/stats/priority-queue", optimizor.NewStatsPriorityQueueHandler(dom))
	r.Handle("/plan_replayer/dump/{filename}", optimizor.NewPlanReplayerHandler(
		dom.InfoSchema(), dom.StatsHandle(), others, t.AdvertiseAddress, t.Status.StatusPort))
	r.Handle("/optimize_trace/dump/{filename}", optimizor.NewOptimizeTraceHandler(others, t.AdvertiseAddress, t.Status.StatusPort))
	r.Handle("/extract_task/dump", extractorhandler.NewExtractTaskServeHandler(dom.GetExtractHandle()))
}

// addSchema adds what shows and sets the schema and the settings.
func addSchema(r *mux.Router, tool *handler.TikvHandlerTool) {
	r.Handle("/settings", tikvhandler.NewSettingsHandler(tool))
	r.Handle("/config", fn.Wrap(func() (*tidb.Config, error) { return tidb.GetGlobalConfig(), nil }))
	r.Handle("/labels", tikvhandler.LabelHandler{})
	r.Handle("/info", tikvhandler.NewServerInfoHandler(tool))
	r.Handle("/info/all", tikvhandler.NewAllServerInfoHandler(tool))
	r.Handle("/db-table/{tableID}", tikvhandler.NewDBTableHandler(tool))
	r.Handle("/ddl/history", tikvhandler.NewDDLHistoryJobHandler(tool))
	r.Handle("/tables/{colID}/{colTp}/{colFlag}/{colLen}", tikvhandler.ValueHandler{})
	for prefix, h := range map[string]http.Handler{
		"/schema":         tikvhandler.NewSchemaHandler(tool),
		"/schema_storage": tikvhandler.NewSchemaStorageHandler(tool),
	} {
		r.Handle(prefix, h)
		r.Handle(prefix+"/{db}", h)
		r.Handle(prefix+"/{db}/{table}", h)
	}
}

// addVersions adds what shows the versions of keys.
func addVersions(r *mux.Router, tool *handler.TikvHandlerTool) {
	byKey := tikvhandler.NewMvccTxnHandler(tool, tikvhandler.OpMvccGetByKey)
	byIndex := tikvhandler.NewMvccTxnHandler(tool, tikvhandler.OpMvccGetByIdx)
	r.Handle("/mvcc/key/{db}/{table}", byKey)
	r.Handle("/mvcc/key/{db}/{table}/{handle}", byKey)
	r.Handle("/mvcc/index/{db}/{table}/{index}", byIndex)
	r.Handle("/mvcc/index/{db}/{table}/{index}/{handle}", byIndex)
	r.Handle("/mvcc/hex/{hexKey}", tikvhandler.NewMvccTxnHandler(tool, tikvhandler.OpMvccGetByHex))
	r.Handle("/mvcc/txn/{startTS}/{db}/{table}", tikvhandler.NewMvccTxnHandler(tool, tikvhandler.OpMvccGetByTxn))
}

// addRegions adds what a cluster has and one store has not.
func addRegions(r *mux.Router, tool *handler.TikvHandlerTool) {
	for op, path := range map[string]string{
		tikvhandler.OpTableRegions: "regions", tikvhandler.OpTableRanges: "ranges",
		tikvhandler.OpTableScatter: "scatter", tikvhandler.OpStopTableScatter: "stop-scatter",
		tikvhandler.OpTableDiskUsage: "disk-usage",
	} {
		r.Handle("/tables/{db}/{table}/"+path, tikvhandler.NewTableHandler(tool, op))
	}
	regions := tikvhandler.NewRegionHandler(tool)
	r.Handle("/regions/meta", regions).Name("RegionsMeta")
	r.Handle("/regions/hot", regions).Name("RegionHot")
	r.Handle("/regions/{regionID}", regions)
	r.Handle("/ddl/owner/resign", tikvhandler.NewDDLResignOwnerHandler(tool.Store.(tidbkv.Storage)))
	r.Handle("/upgrade/{op}", handler.NewClusterUpgradeHandler(tool.Store.(tidbkv.Storage)))
}
