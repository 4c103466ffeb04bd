package embedded

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"fastddl/kv/embedded/txn"
	"fastddl/kv/pebblekv"
)

// Options configures a Store. The zero value is ready for use.
type Options struct {
	// Pebble configures the data below. Its garbage collection by age is off: TiDB's GC worker says what goes.
	Pebble pebblekv.Options
	// Txn configures the transaction layer.
	Txn txn.Options
	// AnswerMemory bounds, in bytes, the answers of the coprocessor that the SQL layer has not taken yet; 0 is 256 MiB.
	// Each request of the SQL layer may have one page of a sixteenth of that, at most of 4 MiB, beyond it.
	AnswerMemory int64
	// Logger receives messages; nil discards them.
	Logger *zap.Logger
}

// EnsureDefaults fills in what is unset.
func (o *Options) EnsureDefaults() {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Pebble.Logger == nil {
		o.Pebble.Logger = o.Logger
	}
	if o.Txn.Logger == nil {
		o.Txn.Logger = o.Logger
	}
	if o.AnswerMemory == 0 {
		o.AnswerMemory = defaultAnswerMemory
	}
	o.Pebble.EnsureDefaults()
	o.Txn.EnsureDefaults()
}

// Validate lists everything that is wrong with the options.
func (o *Options) Validate() error {
	var err error
	if o.AnswerMemory < 0 {
		err = fmt.Errorf("embedded: the memory for answers %d is negative", o.AnswerMemory)
	}
	return errors.Join(err, o.Pebble.Validate(), o.Txn.Validate())
}
