package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pingcap/tidb/pkg/bindinfo"
	tidb "github.com/pingcap/tidb/pkg/config"
	tidbddl "github.com/pingcap/tidb/pkg/ddl"
	"github.com/pingcap/tidb/pkg/executor"
	"github.com/pingcap/tidb/pkg/executor/mppcoordmanager"
	"github.com/pingcap/tidb/pkg/extension"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	parsertypes "github.com/pingcap/tidb/pkg/parser/types"
	plannercore "github.com/pingcap/tidb/pkg/planner/core"
	"github.com/pingcap/tidb/pkg/privilege/privileges"
	"github.com/pingcap/tidb/pkg/resourcemanager"
	"github.com/pingcap/tidb/pkg/session"
	"github.com/pingcap/tidb/pkg/session/txninfo"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/pingcap/tidb/pkg/statistics"
	"github.com/pingcap/tidb/pkg/store/copr"
	"github.com/pingcap/tidb/pkg/util"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/cpuprofile"
	"github.com/pingcap/tidb/pkg/util/deadlockhistory"
	"github.com/pingcap/tidb/pkg/util/disk"
	"github.com/pingcap/tidb/pkg/util/domainutil"
	"github.com/pingcap/tidb/pkg/util/kvcache"
	tidbmemory "github.com/pingcap/tidb/pkg/util/memory"
	"github.com/pingcap/tidb/pkg/util/metricsutil"
	"github.com/pingcap/tidb/pkg/util/sem"
	stmtsummaryv2 "github.com/pingcap/tidb/pkg/util/stmtsummary/v2"
	"github.com/pingcap/tidb/pkg/util/tls"
	"github.com/pingcap/tidb/pkg/util/versioninfo"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/txnkv/transaction"

	"fastddl/config"
	"fastddl/internal/memory"
)

// TiDB keeps its configuration, its metrics, its memory accounts and much else in
// package variables: a process has one server at a time. This file sets those that
// tidb-server's main sets (cmd/tidb-server/main.go of the pinned version), and runs
// the services that belong to the process.

// running says that the process has a server.
var running atomic.Bool

var errSecondServer = errors.New("the process has a server already")

// startOnce starts and registers what cannot be started twice in the life of a
// process; it ends with the process.
var startOnce = sync.OnceValue(func() error {
	executor.Start()
	resourcemanager.InstanceResourceManager.Start()
	copr.GlobalMPPFailedStoreProber.Run()
	// RegisterMetrics would ask PD for the keyspace, to label metrics with it, and give up where opening the store goes on.
	return errors.Join(metricsutil.RegisterMetricsForBR(nil, ""), extension.Setup())
})

// startProcess makes t TiDB's configuration and starts the services of the
// process. On error only the settings stay.
func startProcess(t *tidb.Config, gitHash string, budget memory.Budget) (stop func() error, err error) {
	if !running.CompareAndSwap(false, true) {
		return nil, errSecondServer
	}
	var undo closers
	undo.add(func() error { running.Store(false); return nil })
	defer func() {
		if err != nil {
			err = errors.Join(err, undo.close())
		}
	}()
	limitMemory(budget)
	if n := int(t.Performance.MaxProcs); n > 0 {
		before := runtime.GOMAXPROCS(n)
		undo.add(func() error { runtime.GOMAXPROCS(before); return nil })
	}
	if err := applySettings(t); err != nil {
		return nil, err
	}
	versioninfo.TiDBGitHash = gitHash
	tidb.StoreGlobalConfig(t)
	if err := startOnce(); err != nil {
		return nil, fmt.Errorf("start TiDB's services: %w", err)
	}
	if err := startStatementSummary(&t.Instance, &undo); err != nil {
		return nil, err
	}
	if err := cpuprofile.StartCPUProfiler(); err != nil {
		return nil, fmt.Errorf("start the profiler: %w", err)
	}
	for _, service := range []struct{ start, stop func() }{
		{func() {}, cpuprofile.StopCPUProfiler},
		{mppcoordmanager.InstanceMPPCoordinatorManager.Run, mppcoordmanager.InstanceMPPCoordinatorManager.Stop},
	} {
		service.start()
		undo.add(func() error { service.stop(); return nil })
	}
	return undo.close, nil
}

// useTempDir gives TiDB a folder for its temporary files.
func useTempDir(dir string) (release func() error, err error) {
	tidb.UpdateGlobal(func(t *tidb.Config) {
		t.TempDir = dir
		t.TempStoragePath = filepath.Join(dir, "spill")
		if t.Log.File.Filename == "" {
			// TiDB puts records of expensive statements, and more, beside its log: not
			// into the folder that the process happens to run in.
			t.Log.File.Filename = filepath.Join(dir, "tidb.log")
		}
	})
	// The folder for dumps of PLAN REPLAYER is beside the log.
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "replayer"), 0o700), disk.InitializeTempDir()); err != nil {
		return nil, fmt.Errorf("temp-dir: %w", err)
	}
	return func() error { disk.CleanUp(); return nil }, nil
}

// limitMemory shows TiDB a machine with as much memory as the budget leaves to the
// heap: tidb_server_memory_limit and its like are by default parts of that.
func limitMemory(budget memory.Budget) {
	total := uint64(budget.Heap)
	tidbmemory.MemTotal = func() (uint64, error) { return total, nil }
	tidbmemory.MemUsed = func() (uint64, error) { return tidbmemory.ReadMemStats().HeapInuse, nil }
}

func startStatementSummary(cfg *tidb.Instance, undo *closers) error {
	if !cfg.StmtSummaryEnablePersistent {
		return nil
	}
	if err := stmtsummaryv2.Setup(&stmtsummaryv2.Config{
		Filename: cfg.StmtSummaryFilename, FileMaxSize: cfg.StmtSummaryFileMaxSize,
		FileMaxDays: cfg.StmtSummaryFileMaxDays, FileMaxBackups: cfg.StmtSummaryFileMaxBackups,
	}); err != nil {
		return fmt.Errorf("tidb.instance.tidb_stmt_summary_filename: %w", err)
	}
	undo.add(func() error { stmtsummaryv2.Close(); return nil })
	return nil
}

// applySettings sets the package variables that TiDB takes from its configuration.
func applySettings(t *tidb.Config) error {
	if err := applyDurations(t); err != nil {
		return err
	}
	applyVariables(t)
	applyLimits(t)

	mysql.ServerVersion, mysql.TiDBReleaseVersion = versionOf(t), t.TiDBReleaseVersion
	parsertypes.TiDBStrictIntegerDisplayWidth = t.DeprecateIntegerDisplayWidth
	statistics.RatioOfPseudoEstimate.Store(t.Performance.PseudoEstimateRatio)
	plannercore.AllowCartesianProduct.Store(t.Performance.CrossJoin)
	privileges.SkipWithGrant = t.Security.SkipGrantTable
	if t.Security.EnableSEM {
		sem.Enable()
	}
	split := uint32(0)
	if t.SplitTable {
		split = 1
	}
	atomic.StoreUint32(&tidbddl.EnableSplitTableRegion, split)
	tikv.SetRegionCacheTTLSec(int64(t.TiKVClient.RegionCacheTTL))
	domainutil.RepairInfo.SetRepairMode(t.RepairMode)
	domainutil.RepairInfo.SetRepairTableList(t.RepairTableList)
	deadlockhistory.GlobalDeadlockHistory.Resize(t.PessimisticTxn.DeadlockHistoryCapacity)
	txninfo.Recorder.ResizeSummaries(t.TrxSummary.TransactionSummaryCapacity)
	txninfo.Recorder.SetMinDuration(time.Duration(t.TrxSummary.TransactionIDDigestMinDuration) * time.Millisecond)
	chunk.InitChunkAllocSize(t.TiDBMaxReuseChunk, t.TiDBMaxReuseColumn)
	return nil
}

// applyDurations sets what TiDB's configuration has as text.
func applyDurations(t *tidb.Config) error {
	var errs []error
	parse := func(name, text string) time.Duration {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			errs = append(errs, fmt.Errorf("tidb.%s: %q is not a duration such as \"10s\"", name, text))
		}
		return d
	}
	schema := parse("lease", t.Lease)
	stats := parse("performance.stats-lease", t.Performance.StatsLease)
	replayer := parse("performance.plan-replayer-gc-lease", t.Performance.PlanReplayerGCLease)
	bindings := parse("performance.bind-info-lease", t.Performance.BindInfoLease)
	commit := parse("tikv-client.commit-timeout", t.TiKVClient.CommitTimeout)
	liveness := parse("tikv-client.store-liveness-timeout", t.TiKVClient.StoreLivenessTimeout)
	if schema == 0 {
		errs = append(errs, errors.New("tidb.lease must not be 0"))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	session.SetSchemaLease(schema)
	session.SetStatsLease(stats)
	session.SetPlanReplayerGCLease(replayer)
	bindinfo.Lease = bindings
	atomic.StoreUint64(&transaction.CommitMaxBackoff, uint64(commit.Milliseconds()))
	tikv.SetStoreLivenessTimeout(liveness)
	return nil
}

// applyVariables sets the system variables whose value comes from the
// configuration.
func applyVariables(t *tidb.Config) {
	priority := mysql.Str2Priority(t.Instance.ForcePriority)
	variable.ForcePriority = int32(priority)
	variable.ProcessGeneralLog.Store(t.Instance.TiDBGeneralLog)
	variable.EnablePProfSQLCPU.Store(t.Instance.EnablePProfSQLCPU)
	variable.EnableRCReadCheckTS.Store(t.Instance.TiDBRCReadCheckTS)
	variable.IsSandBoxModeEnabled.Store(!t.Security.DisconnectOnExpiredPassword)
	variable.MemoryUsageAlarmRatio.Store(t.Instance.MemoryUsageAlarmRatio)
	variable.GlobalLogMaxDays.Store(int32(t.Log.File.MaxDays))
	variable.ServiceScope.Store(strings.ToLower(t.Instance.TiDBServiceScope))
	atomic.StoreUint32(&variable.DDLSlowOprThreshold, t.Instance.DDLSlowOprThreshold)
	atomic.StoreUint64(&variable.ExpensiveQueryTimeThreshold, t.Instance.ExpensiveQueryTimeThreshold)
	atomic.StoreUint64(&variable.ExpensiveTxnTimeThreshold, t.Instance.ExpensiveTxnTimeThreshold)

	onOff := variable.BoolToOnOff
	values := map[string]string{
		variable.Version:                               versionOf(t),
		variable.VersionComment:                        t.VersionComment,
		variable.TiDBForcePriority:                     mysql.Priority2Str[priority],
		variable.TiDBOptDistinctAggPushDown:            onOff(t.Performance.DistinctAggPushDown),
		variable.TiDBEnforceMPPExecution:               onOff(t.Performance.EnforceMPP),
		variable.TiDBConstraintCheckInPlacePessimistic: onOff(t.PessimisticTxn.ConstraintCheckInPlacePessimistic),
		variable.TiDBIsolationReadEngines:              strings.Join(t.IsolationRead.Engines, ","),
		variable.TiDBSlowQueryFile:                     t.Log.SlowQueryFile,
		variable.Port:                                  strconv.FormatUint(uint64(t.Port), 10),
		variable.Socket:                                t.Socket,
		variable.DataDir:                               t.Path,
	}
	if t.Store == config.StorePebble {
		// One store: a commit within one batch of the client is one request. TiDB takes
		// the value for new stores from the name of the store.
		values[variable.TiDBEnable1PC] = variable.On
		values[variable.TiDBEnableAsyncCommit] = variable.Off
	}
	if name, err := os.Hostname(); err == nil {
		values[variable.Hostname] = name
	}
	for name, value := range values {
		variable.SetSysVar(name, value)
	}
}

// applyLimits sets what bounds the memory and the disk of statements.
func applyLimits(t *tidb.Config) {
	util.SetGOGC(t.Performance.GOGC)
	tidbkv.TxnEntrySizeLimit.Store(t.Performance.TxnEntrySizeLimit)
	limit := t.Performance.TxnTotalSizeLimit
	if limit == tidb.DefTxnTotalSizeLimit {
		limit = tidb.SuperLargeTxnSize // the memory tracker of the session bounds it
	}
	tidbkv.TxnTotalSizeLimit.Store(limit)
	total, _ := tidbmemory.MemTotal() // limitMemory's never fails
	plannercore.PreparedPlanCacheMaxMemory.Store(total)
	executor.GlobalDiskUsageTracker.SetBytesLimit(t.TempStorageQuota)
	executor.GlobalMemoryUsageTracker.SetBytesLimit(-1)
	kvcache.GlobalLRUMemUsageTracker.AttachToGlobalTracker(executor.GlobalMemoryUsageTracker)
}

// requireTLS refuses clients without TLS until it is undone, regardless of the stored
// value of the variable require_secure_transport.
func requireTLS() (undo func() error) {
	before := variable.GetSysVar(variable.RequireSecureTransport)
	pinned := *before
	pinned.Value = variable.On
	pinned.SetGlobal = func(context.Context, *variable.SessionVars, string) error {
		tls.RequireSecureTransport.Store(true)
		return nil
	}
	variable.RegisterSysVar(&pinned)
	tls.RequireSecureTransport.Store(true)
	return func() error {
		variable.RegisterSysVar(before)
		tls.RequireSecureTransport.Store(false)
		return nil
	}
}
