// Package kvtest states the contract of kv.Store as tests. Every driver runs
// them with [Run]; they use nothing but the interfaces of package kv, and keep
// to a key space of their own, so that the store under test may be shared.
package kvtest
