package pebblekv

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/cockroachkvs"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"fastddl/flow"
	"fastddl/internal/memory"
)

const (
	// testCache is the block cache of a store in memory.
	testCache = 64 << 20

	blockSize        = 32 << 10
	bloomBitsPerKey  = 10
	l0CompactionSubs = 4
	l0StopSubs       = 20
	// l0DamagedSubs is where writes are refused if damage keeps L0 from being
	// compacted: before they would stop for good.
	l0DamagedSubs = l0StopSubs - 4
	lBaseMaxBytes = 256 << 20

	// deletionRate is the speed in bytes per second at which files that are not
	// needed any more are removed. Many at a time make some disks stall; the engine
	// goes faster by itself when space is short or files pile up.
	deletionRate = 128 << 20
	// deleteRangeFlush is how long a range deletion waits in memory for company: it
	// frees no space before it is in a file.
	deleteRangeFlush = 5 * time.Second

	defaultGCLifeTime = 10 * time.Minute
	defaultGCInterval = 10 * time.Minute
)

// Options configures a Store. The zero value is ready for use.
type Options struct {
	// DisableSync acknowledges commits when the operating system has them, before
	// they are on stable storage: a crash of the machine may lose the last ones,
	// though never half of one. The end of this process, however it comes, loses none.
	DisableSync bool
	// AllowDamagedLog opens a store whose log is damaged before its end: what lies
	// behind the damage is lost, and kept aside in the folder "damaged-logs". Without
	// it, Open fails with kv.ErrDamaged.
	AllowDamagedLog bool
	// CacheBytes is the size of the block cache, and MemTableBytes that of each
	// memtable; 0 is as memory.Divide says of a process without a limit, but a cache
	// of 64 MiB with an FS.
	CacheBytes    int64
	MemTableBytes int64
	// GCLifeTime is how long versions stay readable after they are shadowed;
	// nil is 10 minutes. It is asked before each run.
	GCLifeTime func() time.Duration
	// GCRunInterval is the time between garbage collections; nil is 10 minutes,
	// and 0 or less turns the background runs off while it lasts.
	GCRunInterval func() time.Duration
	// FS is the file system; nil is the operating system's. Import folders that
	// do not exist are created on it, so that tests can run in memory.
	FS vfs.FS
	// Logger receives the engine's messages; nil discards them. After an error
	// that leaves the engine's state on disk unknown its Fatal is called, which
	// ends the process: the next Open recovers.
	Logger *zap.Logger
	// Stage receives what Open is doing; nil drops it.
	Stage func(string)

	// scratch says that the store is a copy that is thrown away: see OpenCheckpoint.
	scratch bool
}

// EnsureDefaults fills in what is unset.
func (o *Options) EnsureDefaults() {
	budget := memory.Divide(0)
	if o.FS != nil {
		budget.BlockCache = testCache
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = budget.BlockCache
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = budget.MemTable
	}
	if o.GCLifeTime == nil {
		o.GCLifeTime = func() time.Duration { return defaultGCLifeTime }
	}
	if o.GCRunInterval == nil {
		o.GCRunInterval = func() time.Duration { return defaultGCInterval }
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Stage == nil {
		o.Stage = func(string) {}
	}
}

// Validate lists everything that is wrong with the options.
func (o *Options) Validate() error {
	var errs []error
	if o.CacheBytes < 0 {
		errs = append(errs, fmt.Errorf("pebblekv: cache size %d is negative", o.CacheBytes))
	}
	if o.MemTableBytes < 0 {
		errs = append(errs, fmt.Errorf("pebblekv: memtable size %d is negative", o.MemTableBytes))
	}
	return errors.Join(errs...)
}

// engineOptions are Pebble's options for a store with options o.
func engineOptions(o Options, h *health) *pebble.Options {
	listener := h.listener()
	compactions := newCompactions(o.Logger)
	scheduler := newScheduler()
	listener.CompactionBegin = compactions.begin
	listener.CompactionEnd = func(info pebble.CompactionInfo) {
		compactions.end(info)
		scheduler.ended(info.Err)
		h.compacted(info.Err)
	}
	eo := &pebble.Options{
		FormatMajorVersion: pebble.FormatNewest,
		CacheSize:          o.CacheBytes,

		DisableAutomaticCompactions: o.scratch,

		Comparer:                &cockroachkvs.Comparer,
		KeySchema:               cockroachkvs.KeySchema.Name,
		KeySchemas:              sstable.MakeKeySchemas(&cockroachkvs.KeySchema),
		BlockPropertyCollectors: cockroachkvs.BlockPropertyCollectors,

		MemTableSize: uint64(o.MemTableBytes),
		// An ingestion that overlaps a memtable joins the queue of memtables
		// instead of waiting for a flush as long as the queue has room.
		MemTableStopWritesThreshold: memory.MemTables,
		L0CompactionThreshold:       l0CompactionSubs,
		L0StopWritesThreshold:       l0StopSubs,
		LBaseMaxBytes:               lBaseMaxBytes,
		FlushSplitBytes:             8 << 20,
		MaxOpenFiles:                4096,
		WALBytesPerSync:             512 << 10,
		// A dropped table gives its space back without waiting for writes.
		FlushDelayDeleteRange:  deleteRangeFlush,
		TargetByteDeletionRate: deletionRate,

		CompactionConcurrencyRange: func() (lower, upper int) {
			return 1, flow.Cores()
		},
		Logger:        engineLogger{o.Logger.Sugar(), &h.quiet},
		EventListener: &listener,
	}
	eo.Experimental.CompactionScheduler = scheduler
	// An import between the keys of a file cuts it in two, without rewriting it,
	// and takes its place in the bottom level. It would lie above it otherwise, to
	// be rewritten by a compaction. Beside damage, half of a file would get lost.
	eo.Experimental.IngestSplit = func() bool { return !h.met.Load() }
	// Scans of whole tables would otherwise set off compactions of data that
	// is not written to.
	eo.Experimental.ReadSamplingMultiplier = -1
	// File boundaries are where Ranges cuts, so the lower levels have many
	// files rather than large ones.
	eo.TargetFileSizes = [7]int64{8 << 20, 16 << 20, 32 << 20, 32 << 20, 32 << 20, 32 << 20, 32 << 20}
	for i := range eo.Levels {
		eo.Levels[i] = pebble.LevelOptions{
			BlockSize:      blockSize,
			IndexBlockSize: 256 << 10,
			FilterPolicy:   bloom.FilterPolicy(bloomBitsPerKey),
			FilterType:     pebble.TableFilter,
			Compression:    levelCompression,
		}
	}
	// The store's own records lie in files of their own, so that damage to a table's
	// file does not keep the store from being opened.
	eo.Experimental.SpanPolicyFunc = pebble.MakeStaticSpanPolicyFunc(
		cockroachkvs.Comparer.Compare, recordSpan(), pebble.SpanPolicy{})
	eo.EnsureDefaults()
	return eo
}

// levelCompression is the same on all levels: building an index reads the
// bottom level as fast as it can be decompressed.
func levelCompression() *sstable.CompressionProfile { return sstable.FastestCompression }
