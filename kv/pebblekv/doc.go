// Package pebblekv is the embedded MVCC store of fastddl on Pebble.
package pebblekv
