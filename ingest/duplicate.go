package ingest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
)

// Bounds of a list of duplicates.
const (
	// MaxDuplicateGroups is how many groups are listed.
	MaxDuplicateGroups = 100
	// MaxDuplicateValues is how many rows of a group are named.
	MaxDuplicateValues = 10
)

// DuplicateGroup is two or more rows with the same values in a unique index.
type DuplicateGroup struct {
	IndexID int64
	// Key is the whole key that the rows' entries have in common.
	Key []byte
	// Rows is the number of rows that were found to have it.
	Rows int64
	// Values are the values of the rows' entries, which hold their handles: the
	// first MaxDuplicateValues in byte order. Where entries come Once it is that of one of them, none if it is longer than
	// MaxEntrySize.
	Values [][]byte
}

// NewDuplicateGroup returns a group of the rows whose entries have the given
// values.
func NewDuplicateGroup(indexID int64, key []byte, values ...[]byte) *DuplicateGroup {
	g := &DuplicateGroup{IndexID: indexID, Key: bytes.Clone(key)}
	for _, v := range values {
		g.Add(v)
	}
	return g
}

// Add adds the row whose entry has the given value, unless the group names it
// already.
func (g *DuplicateGroup) Add(value []byte) {
	at, found := slices.BinarySearchFunc(g.Values, value, bytes.Compare)
	if found {
		return
	}
	g.Rows++
	if at == MaxDuplicateValues {
		return
	}
	g.Values = slices.Insert(g.Values, at, bytes.Clone(value))
	g.Values = g.Values[:min(len(g.Values), MaxDuplicateValues)]
}

// DuplicateError reports rows with the same values in a unique index.
type DuplicateError struct {
	// Groups has at least one group and at most MaxDuplicateGroups, over all
	// indexes of the job: those of its first index first, and in order of keys.
	Groups []*DuplicateGroup
}

func (e *DuplicateError) Error() string {
	g := e.Groups[0]
	return fmt.Sprintf("ingest: duplicate entry in unique index %d: key %x (%d duplicate keys found)", g.IndexID, g.Key, len(e.Groups))
}

// SameKeyError reports two rows that give an index, which need not be unique, one key: so its entries cannot tell them apart.
type SameKeyError struct {
	IndexID int64
	// Key is the whole key.
	Key []byte
}

func (e *SameKeyError) Error() string {
	return fmt.Sprintf("ingest: two rows give index %d the key %x", e.IndexID, e.Key)
}

// search gathers the duplicates that the pieces of a flush meet.
//
// With the first of them the build has failed, so nothing more is written. What
// is left of the pieces is only read, for the groups with the least keys. Which
// these are depends neither on where the pieces were cut nor on the order in
// which they run: a piece ends early only when the pieces before it, which have
// lesser keys, and itself have enough groups.
type search struct {
	// failed ends with the first duplicate.
	failed context.Context
	fail   context.CancelFunc

	mu     sync.Mutex
	groups [][]*DuplicateGroup // by piece
	same   *SameKeyError       // of the first piece that has met one
	sameIn int                 // that piece
}

func newSearch(pieces int) *search {
	s := &search{groups: make([][]*DuplicateGroup, pieces)}
	s.failed, s.fail = context.WithCancel(context.Background())
	return s
}

// over says that a piece has met a duplicate.
func (s *search) over() bool { return s.failed.Err() != nil }

// writing returns a context for work that a duplicate makes needless.
func (s *search) writing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	forget := context.AfterFunc(s.failed, cancel)
	return ctx, func() {
		forget()
		cancel()
	}
}

func (s *search) add(piece int, groups []*DuplicateGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups[piece] = append(s.groups[piece], groups...)
}

// addSameKey ends the writing because of two rows with one key of an index that is not unique. Such rows may be a duplicate
// of a unique index, which says more.
func (s *search) addSameKey(piece int, e *SameKeyError) {
	s.fail()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.same == nil || piece < s.sameIn {
		s.same, s.sameIn = e, piece
	}
}

// wants says that what a piece has not read yet may still belong to the list.
func (s *search) wants(piece int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, groups := range s.groups[:piece+1] {
		n += len(groups)
	}
	return n < MaxDuplicateGroups
}

// err returns the result of the search: nil, a DuplicateError, or a SameKeyError if there is none.
func (s *search) err() error {
	all := slices.Concat(s.groups...)
	if len(all) == 0 {
		if s.same != nil {
			return s.same
		}
		return nil
	}
	return &DuplicateError{Groups: all[:min(len(all), MaxDuplicateGroups)]}
}
