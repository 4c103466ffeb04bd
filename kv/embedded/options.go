package embedded

import (
	"errors"

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
	o.Pebble.EnsureDefaults()
	o.Txn.EnsureDefaults()
}

// Validate lists everything that is wrong with the options.
func (o *Options) Validate() error { return errors.Join(o.Pebble.Validate(), o.Txn.Validate()) }
