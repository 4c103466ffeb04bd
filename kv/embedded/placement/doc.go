// Package placement is the Placement Driver of a store that lives in this process: PD's client interface without a PD.
//
// There is one store, so placement decides little: regions are ranges of keys with an ID and an epoch, in memory only.
// They exist because clients route by them and split work along them. Splitting and merging moves no data, and no request
// depends on them: a client with an old epoch gets the new regions, nothing else.
//
// A transaction within one region can be committed in one request, so regions are few: they are split where a client asks
// for it, and by size.
//
// Timestamps are the store's. What PD keeps durably is durable here as well, in records of the store: the cluster's ID,
// safe points, configuration, resource groups. A service safe point is a hold on garbage collection in the store, so that
// it counts together with those of index builds.
//
// Keys in PD's interface and in region errors are encoded as between client-go and PD: memory-comparable. Everywhere else
// in this package they are plain.
package placement
