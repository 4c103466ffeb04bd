package kv

import (
	"context"
	"sync/atomic"
	"time"
)

// RequestKind is what a request to a store asks for.
type RequestKind int

// The kinds of requests.
const (
	// RequestRows asks the coprocessor for rows, or for how many there are.
	RequestRows RequestKind = iota
	// RequestSums asks for the sum of entries.
	RequestSums
	// RequestKeys asks for keys, or for the pairs of a range.
	RequestKeys
	// RequestLocks looks for locks, or ends their transactions.
	RequestLocks
	// RequestImport sends a file, or has it taken.
	RequestImport
	// RequestSplit splits a region.
	RequestSplit
	// RequestOther is any other.
	RequestOther
	requestKinds
)

// Costs is what work has cost the stores, as far as they are known to have done it.
type Costs struct {
	// Requests are how often stores were sent something, retries included, by kind.
	Requests [requestKinds]int64
	// SentBytes and ReceivedBytes are the sizes of the requests and of the answers. What several replicas were sent counts
	// for each of them.
	SentBytes, ReceivedBytes int64
	// StoreTime is how long stores have worked at reads, as they report it: nearly their CPU time. They do not report it of
	// imports.
	StoreTime time.Duration
}

// AllRequests is the number of requests of all kinds.
func (c *Costs) AllRequests() (n int64) {
	for _, of := range c.Requests {
		n += of
	}
	return n
}

// Add adds o, the costs of other work.
func (c *Costs) Add(o Costs) {
	for kind, n := range o.Requests {
		c.Requests[kind] += n
	}
	c.SentBytes += o.SentBytes
	c.ReceivedBytes += o.ReceivedBytes
	c.StoreTime += o.StoreTime
}

// Meter adds costs up. Its zero value is ready, and it may be used concurrently. A nil one drops what is added.
type Meter struct {
	requests             [requestKinds]atomic.Int64
	sent, received, time atomic.Int64
}

// Request adds one request.
func (m *Meter) Request(kind RequestKind, sent, received int64, storeTime time.Duration) {
	if m == nil {
		return
	}
	m.requests[kind].Add(1)
	m.sent.Add(sent)
	m.received.Add(received)
	m.time.Add(int64(storeTime))
}

// Sent adds bytes of a request that goes on.
func (m *Meter) Sent(bytes int64) {
	if m != nil {
		m.sent.Add(bytes)
	}
}

// Costs returns what was added so far.
func (m *Meter) Costs() (c Costs) {
	for kind := range m.requests {
		c.Requests[kind] = m.requests[kind].Load()
	}
	c.SentBytes, c.ReceivedBytes, c.StoreTime = m.sent.Load(), m.received.Load(), time.Duration(m.time.Load())
	return c
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
