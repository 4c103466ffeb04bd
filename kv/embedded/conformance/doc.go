// Package conformance states as tests what a store must do that speaks TiKV's protocol: each request by itself, as
// client-go sends it, over a client and a PD client.
//
// It runs against the embedded store, and against TiDB's unistore as an independent opinion; a TiKV cluster would do as
// well. Where a store is known to differ from TiKV its harness says which case it skips and why.
package conformance
