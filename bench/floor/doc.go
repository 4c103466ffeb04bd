// Package floor measures what a machine needs at least to build an index:
// to read the needed columns once and to write the entries to final files once.
//
// It reads the entries from the index that was built, so it knows nothing of how
// they are encoded or sorted. It changes nothing in the store.
package floor
