package tikv

import (
	"context"
	"errors"

	"github.com/tikv/client-go/v2/tikv"
	"go.uber.org/zap"

	"fastddl/kv"
)

// Importer writes import units and brings them into the cluster.
type Importer interface {
	// NewWriter opens a writer of one unit.
	NewWriter(ctx context.Context, opts kv.ImportOptions) (kv.ImportWriter, error)
	// Import does what kv.Store.Import does.
	Import(ctx context.Context, units []kv.ImportUnit) error
	// Busy says that a store refuses imports at the moment, because it has too much to
	// do.
	Busy() bool
	// Close ends what runs in the background.
	Close() error
}

// Options configures a Store.
type Options struct {
	// Importer takes the imports, and is closed with the store. Without one the store is
	// for reading.
	Importer Importer
	// PageBytes is about how much a scan requests at a time, if the rows' length is bounded, and a quarter of it
	// otherwise; 0 is 4 MiB. A scan holds four or five pages as a rule, and never more than nine.
	PageBytes int
	// Logger receives messages; nil discards them.
	Logger *zap.Logger
}

// defaultPageBytes makes a request worth its round trip.
const defaultPageBytes = 4 << 20

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	if o.PageBytes == 0 {
		o.PageBytes = defaultPageBytes
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
}

// Validate lists everything that is wrong with the options.
func (o *Options) Validate() error {
	if o.PageBytes < 0 {
		return errors.New("tikv: invalid options: PageBytes is negative")
	}
	return nil
}

// maxBackoff bounds how long one call waits for a cluster that does not answer, in
// milliseconds: as client-go does for reads.
const maxBackoff = 20_000

func backoffer(ctx context.Context) *tikv.Backoffer {
	return tikv.NewBackofferWithVars(ctx, maxBackoff, nil)
}
