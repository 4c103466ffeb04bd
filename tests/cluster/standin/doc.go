// Package standin is a TiKV cluster for tests, in the process of the test: what
// SQL servers see of PD and of TiKV, over the network, with faults to order.
//
// PD is an etcd with more services, and so it is here: an etcd of one member, on
// whose gRPC server PD's services are served as well, and PD's HTTP API on the
// same port. What PD decides (timestamps, regions, safe points, resource groups) is
// decided by the embedded store's own placement. TiKV is the embedded store, served
// over gRPC.
//
// Every SQL server gets an [Endpoint] of its own, an address of the one PD: it can be
// cut off, from all of PD or from etcd only, without the others noticing. [Faults]
// answer requests to TiKV with region errors, hold them up, or break the connection.
//
// What it is not: there is one store and one PD, so nothing is replicated and no leader
// moves. There is no Raft: a region changes only its range and its epoch. PD
// schedules nothing; placement rules, labels and limits are kept and handed back (labels
// for as long as they are to live), without effect. Regions have no heartbeats, so that
// statistics of regions and stores are empty.
// There is one keyspace, or none. TiFlash, change feeds and log backup are not there. PD does not refuse
// requests that are meant for another cluster. The configuration of the resource
// controller is not kept, so that clients take their defaults. It holds its data in
// memory, without a log, so that the store does not outlive the test.
package standin
