package ingest

import (
	"fastddl/flow"
	"fastddl/kv"
)

// StoreSignals returns what flow control samples of a store.
func StoreSignals(store kv.Store) func() flow.StoreSignals {
	return func() flow.StoreSignals {
		s := store.LoadSignals()
		return flow.StoreSignals{
			Commits: s.Commits, CommitTime: s.CommitTime, CommitsPerSecond: s.CommitsPerSecond, CommitMean: s.CommitMean,
		}
	}
}
