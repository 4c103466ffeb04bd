// Package cluster runs the built server as a node of a TiKV cluster (--store tikv),
// alone and beside others of its kind, over the stand-in for a cluster in package
// standin: bootstrap, statements, schema changes seen by all, the metadata lock across
// nodes, the loss of nodes in the middle of things, and faults of the store.
//
// It is a module of its own, because an etcd and what it brings along must not move the
// versions that the server is built from.
package cluster
