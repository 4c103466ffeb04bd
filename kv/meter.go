package kv

import (
	"context"
	"sync"
	"time"
)

// Costs is what work has cost the stores, as far as it is known.
type Costs struct {
	// Requests are how often stores were sent something, retries included, by what it asked for.
	Requests Requests `json:"requests,omitzero"`
	// SentBytes and ReceivedBytes are the sizes of the requests and of the answers. What several replicas were sent counts
	// for each of them.
	SentBytes     int64 `json:"sent_bytes,omitempty"`
	ReceivedBytes int64 `json:"received_bytes,omitempty"`
	// StoreTime is how long stores have worked at reads, as they report it: nearly their CPU time. They do not report it of
	// imports.
	StoreTime time.Duration `json:"store_nanoseconds,omitempty"`
}

// Requests counts requests by what they ask for.
type Requests struct {
	// Rows ask the coprocessor for rows, or for how many there are, Sums for the sum of entries.
	Rows int64 `json:"rows,omitempty"`
	Sums int64 `json:"sums,omitempty"`
	// Keys ask for keys, or for the pairs of a range, outside of the coprocessor.
	Keys int64 `json:"keys,omitempty"`
	// Writes are a transaction's, or look for the locks of others and end them.
	Writes int64 `json:"writes,omitempty"`
	// Imports send a file, or have it taken.
	Imports int64 `json:"imports,omitempty"`
	// Splits split a region.
	Splits int64 `json:"splits,omitempty"`
	Others int64 `json:"others,omitempty"`
}

// All is the number of all requests.
func (r Requests) All() int64 {
	return r.Rows + r.Sums + r.Keys + r.Writes + r.Imports + r.Splits + r.Others
}

// Plus returns the costs of the work of both.
func (c Costs) Plus(o Costs) Costs {
	r, s := c.Requests, o.Requests
	return Costs{
		Requests: Requests{
			Rows: r.Rows + s.Rows, Sums: r.Sums + s.Sums, Keys: r.Keys + s.Keys, Writes: r.Writes + s.Writes,
			Imports: r.Imports + s.Imports, Splits: r.Splits + s.Splits, Others: r.Others + s.Others,
		},
		SentBytes: c.SentBytes + o.SentBytes, ReceivedBytes: c.ReceivedBytes + o.ReceivedBytes, StoreTime: c.StoreTime + o.StoreTime,
	}
}

// Meter adds costs up. Its zero value is ready, and it may be used concurrently. A nil one drops what is added.
type Meter struct {
	mu    sync.Mutex
	costs Costs
}

// Add adds costs.
func (m *Meter) Add(c Costs) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.costs = m.costs.Plus(c)
}

// Costs returns what was added so far.
func (m *Meter) Costs() Costs {
	if m == nil {
		return Costs{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.costs
}

type meterKey struct{}

// MeterOf returns the meter of a context, nil if it has none.
func MeterOf(ctx context.Context) *Meter {
	m, _ := ctx.Value(meterKey{}).(*Meter)
	return m
}

// WithMeter returns a context of work on a store whose costs are added to a meter. A store that is no Metered adds none.
func WithMeter(ctx context.Context, s Store, m *Meter) context.Context {
	metered, ok := s.(Metered)
	if !ok {
		return ctx
	}
	return metered.Metered(context.WithValue(ctx, meterKey{}, m))
}
