package sstimport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/tikv/client-go/v2/tikv"
	pd "github.com/tikv/pd/client"
	pdhttp "github.com/tikv/pd/client/http"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"fastddl/kv"
)

// PD is what is asked of PD. Its keys are those of the caller, so that a client with a
// codec (tikv.CodecPDClient) is to be given, as a tikv.KVStore has.
type PD interface {
	// ScanRegions returns the regions from the one that holds key up to endKey, in order.
	ScanRegions(ctx context.Context, key, endKey []byte, limit int, opts ...pd.GetRegionOption) ([]*pd.Region, error)
	GetStore(ctx context.Context, id uint64) (*metapb.Store, error)
	GetTS(ctx context.Context) (physical, logical int64, err error)
}

// Splitter splits regions. A tikv.KVStore is one.
type Splitter interface {
	// SplitRegions splits regions at the keys and returns the new ones, which it has
	// asked PD to scatter.
	SplitRegions(ctx context.Context, keys [][]byte, scatter bool, tableID *int64) ([]uint64, error)
	// WaitScatterRegionFinish waits at most backOff milliseconds.
	WaitScatterRegionFinish(ctx context.Context, regionID uint64, backOff int) error
}

// Codec puts keys into the form that they have in TiKV. A tikv.Codec is one.
type Codec interface {
	GetAPIVersion() kvrpcpb.APIVersion
	// EncodeKey adds the keyspace's prefix.
	EncodeKey(key []byte) []byte
	// EncodeRegionKey encodes a key as in the range of a region.
	EncodeRegionKey(key []byte) []byte
	// EncodeRegionRange encodes a range as that of a region. One without an end has none.
	EncodeRegionRange(start, end []byte) (from, to []byte)
}

// Labels keeps rules that label key ranges. PD's HTTP client does.
type Labels interface {
	SetRegionLabelRule(ctx context.Context, rule *pdhttp.LabelRule) error
	PatchRegionLabelRules(ctx context.Context, patch *pdhttp.LabelRulePatch) error
}

// Rooms reports how much room stores have. PD's HTTP client does.
type Rooms interface {
	GetStore(ctx context.Context, id uint64) (*pdhttp.StoreInfo, error)
}

// Options configures an Importer.
type Options struct {
	// PD finds regions and stores, and hands out timestamps.
	PD PD
	// Codec is that of the cluster's keyspace; nil is that of clusters without keyspaces.
	Codec Codec
	// Splitter splits regions that would receive too much; nil leaves them as they are.
	Splitter Splitter
	// Labels is used to keep PD from moving the regions that are imported into; nil lets
	// it move them, which costs repeated work only.
	Labels Labels
	// Rooms is asked for the stores that take files until their disk is full, which are those
	// of TiKV before 8.0; nil is not.
	Rooms Rooms
	// Dial connects to a store, by host:port; nil is Dial, with the settings of TiDB's driver.
	Dial func(ctx context.Context, addr string) (*grpc.ClientConn, error)
	// Lease says, by nil, that the caller may still import. It is asked before each
	// request that changes something, with the context that Import was given. Its error
	// ends the import and is returned. nil is kv.CheckPermit.
	Lease func(ctx context.Context) error
	// RequestSource is what requests say that they are for. The resource group that pays for
	// them is that of the context (util.WithResourceGroupName of client-go).
	RequestSource string
	// Logger receives what went wrong and was repeated; nil discards it.
	Logger *zap.Logger

	// WriteSpeed returns the most that one store is sent, in bytes per second; 0 is no
	// limit, as is a nil function. It is called often, and may change its mind at any time.
	WriteSpeed func() int64
	// SplitBytes is what a region is to hold, in bytes of keys and values, and the unit
	// in which regions are sent data; 0 is 96 MiB. Small pairs count for more,
	// since TiKV bounds the number of a region's keys as well.
	SplitBytes int64
	// StoreStreams is how many files are written to one store at a time, of regions or, if
	// there are fewer, parts of them; 0 is 4.
	StoreStreams int
	// MaxKeyBytes and MaxEntryBytes bound a key, and a key with its value, in what TiKV
	// would take from a transaction: 0 is 8 KiB, and 8 MiB.
	MaxKeyBytes, MaxEntryBytes int

	// MaxAttempts is the number of errors in a row after which the import fails, while
	// nothing is imported into a region. Answers that a store is busy are not counted. 0 is 30.
	MaxAttempts int
	// GiveUpAfter is how long a region is tried after errors of any kind while nothing is
	// imported into it, without the time that its files are sent or wait to be; 0 is 15
	// minutes.
	GiveUpAfter time.Duration
	// Backoff is the pause after the given error in a row, counted from 1; nil doubles
	// from 50 ms to 5 s.
	Backoff func(failures int) time.Duration
	// CallTimeout is how long a request may make no progress; 0 is a minute.
	CallTimeout time.Duration
	// LabelTTL is how long PD keeps a label rule that is not renewed; 0 is 2 minutes.
	LabelTTL time.Duration
}

const (
	defaultSplitBytes    = 96 << 20
	defaultStoreStreams  = 4
	defaultMaxKeyBytes   = 8 << 10
	defaultMaxEntryBytes = 8 << 20
	defaultMaxAttempts   = 30
	defaultGiveUpAfter   = 15 * time.Minute
	defaultCallTimeout   = time.Minute
	defaultLabelTTL      = 2 * time.Minute
)

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	if o.Codec == nil {
		o.Codec = tikv.NewCodecV1(tikv.ModeTxn)
	}
	if o.Dial == nil {
		o.Dial = Dial
	}
	if o.Lease == nil {
		o.Lease = kv.CheckPermit
	}
	if o.WriteSpeed == nil {
		o.WriteSpeed = func() int64 { return 0 }
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Backoff == nil {
		o.Backoff = exponentialBackoff
	}
	setDefault(&o.SplitBytes, defaultSplitBytes)
	setDefault(&o.StoreStreams, defaultStoreStreams)
	setDefault(&o.MaxKeyBytes, defaultMaxKeyBytes)
	setDefault(&o.MaxEntryBytes, defaultMaxEntryBytes)
	setDefault(&o.MaxAttempts, defaultMaxAttempts)
	setDefault(&o.GiveUpAfter, defaultGiveUpAfter)
	setDefault(&o.CallTimeout, defaultCallTimeout)
	setDefault(&o.LabelTTL, defaultLabelTTL)
}

func setDefault[T comparable](value *T, to T) {
	var zero T
	if *value == zero {
		*value = to
	}
}

// Validate lists everything that is wrong with the options.
func (o *Options) Validate() error {
	var problems []error
	if o.PD == nil {
		problems = append(problems, errors.New("PD is missing"))
	}
	for name, value := range map[string]int64{
		"SplitBytes": o.SplitBytes, "StoreStreams": int64(o.StoreStreams),
		"MaxKeyBytes": int64(o.MaxKeyBytes), "MaxEntryBytes": int64(o.MaxEntryBytes), "MaxAttempts": int64(o.MaxAttempts),
		"GiveUpAfter": int64(o.GiveUpAfter), "CallTimeout": int64(o.CallTimeout), "LabelTTL": int64(o.LabelTTL),
	} {
		if value < 0 {
			problems = append(problems, fmt.Errorf("%s is %d", name, value))
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("sstimport: invalid options: %w", errors.Join(problems...))
	}
	return nil
}
