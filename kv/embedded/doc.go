// Package embedded is a TiKV of one store and its PD, in this process, over a pebblekv store: TiDB's SQL layer and
// client-go run on it as they run on a cluster.
//
//   - [Store.Client] answers client-go's requests, and [Store.PDClient] is PD. Nothing goes over a network.
//   - [Store.Storage] is TiDB's kv.Storage made of the two, with everything that TiDB expects of a storage.
//   - [Store.Builds] is the same data as an index build sees it (package fastddl/kv).
//   - Package grpcserver offers the requests to other processes, for tests.
//
// The work is done elsewhere: package txn has the transactions, package cop the coprocessor, package placement regions and
// what PD does, pebblekv the data. This package checks that a request is routed right, hands it on, and puts what went
// wrong where a client looks for it.
//
// # Errors
//
// A request that failed for good is answered with a key error, which ends the client's transaction; also a panic is. There is
// an error instead of an answer only if the outcome is unknown, if the caller has gone away or has no time left, or if the
// store is closed. Then client-go gives up: an error for which it retries would make it look whether the store lives.
package embedded
