// Package grpcserver serves an embedded store over gRPC, as a TiKV: for tests that
// need a network between client-go and the store. The product does not import it.
package grpcserver
