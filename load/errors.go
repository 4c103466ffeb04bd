package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/store/driver/txn"

	"fastddl/ddl/job"
	"fastddl/ingest"
	"fastddl/load/rows"
)

// RowsError has the rows that cannot be loaded.
type RowsError struct {
	// Rows has at least one row and at most Spec.MaxErrors, in order of files and lines.
	Rows []*rows.RowError
}

func (e *RowsError) Error() string {
	if len(e.Rows) == 1 {
		return e.Rows[0].Error()
	}
	return fmt.Sprintf("%v (%d bad rows found)", e.Rows[0], len(e.Rows))
}

// Unwrap returns the error of the first row.
func (e *RowsError) Unwrap() error { return e.Rows[0] }

// badRows collects bad rows.
type badRows struct {
	most int
	some atomic.Bool // there are any

	mu   sync.Mutex
	rows []*rows.RowError
	// until is when the search for more ends.
	until time.Time
}

const (
	// searchTime is how long a load that has failed goes on to look for bad rows: its table takes no writes meanwhile.
	searchTime = 10 * time.Second
	// maxErrorText bounds the text of a bad row's error in bytes.
	maxErrorText = 1024
)

// add adds a row, and says that no more are wanted.
func (b *badRows) add(e *rows.RowError) (enough bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.some.Swap(true) {
		b.until = time.Now().Add(searchTime)
	}
	if len(b.rows) < b.most {
		b.rows = append(b.rows, withoutValue(e))
	}
	return len(b.rows) >= b.most
}

// over says that the search for more bad rows has taken long enough.
func (b *badRows) over() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.some.Load() && time.Now().After(b.until)
}

// withoutValue returns the row's error with its text, which it cuts, and without the value, which TiDB's errors keep.
func withoutValue(e *rows.RowError) *rows.RowError {
	short := *e
	if known := job.FindTerror(e.Err); known != nil {
		short.Err = known.FastGen("%s", cut(terror.ToSQLError(known).Message))
	} else if text := e.Err.Error(); len(text) > maxErrorText {
		short.Err = errors.New(cut(text))
	}
	return &short
}

// cut returns the beginning of a long text.
func cut(text string) string {
	if len(text) <= maxErrorText {
		return text
	}
	return strings.ToValidUTF8(text[:maxErrorText], "") + "..."
}

// any says that there is a bad row.
func (b *badRows) any() bool { return b.some.Load() }

// err returns the bad rows as an error; nil if there are none.
func (b *badRows) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.rows) == 0 {
		return nil
	}
	slices.SortStableFunc(b.rows, func(x, y *rows.RowError) int { return comparePlaces(x.Place, y.Place) })
	return &RowsError{Rows: b.rows}
}

func comparePlaces(a, b rows.Place) int {
	return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Line, b.Line))
}

// Duplicate is a key that several rows have.
type Duplicate struct {
	// Err is TiDB's error 1062, as INSERT of the second row returns it.
	Err error
	// Rows is how many rows were found to have the key. Places are where they stand in the source, as far as that was found out.
	Rows   int64
	Places []rows.Place
}

// DuplicateError says that rows of the source have equal values of a primary key or of a unique index.
type DuplicateError struct {
	// Duplicates has at least one key and at most Spec.MaxErrors, those of the primary key first, then by index, and in order of keys.
	Duplicates []Duplicate
	// Unlisted is why the rows could not be looked up in the source; nil if they could.
	Unlisted error
}

func (e *DuplicateError) Error() string {
	first := &e.Duplicates[0]
	text := first.Err.Error()
	for i, p := range first.Places {
		switch i {
		case 0:
			text += ": "
		case len(first.Places) - 1:
			text += " and "
		default:
			text += "; "
		}
		text += p.String()
	}
	if n := len(e.Duplicates); n > 1 {
		text += fmt.Sprintf(" (%d duplicate keys found)", n)
	}
	return text
}

// Unwrap returns the error of the first key.
func (e *DuplicateError) Unwrap() error { return e.Duplicates[0].Err }

const (
	// placesOfKey is about how many rows are looked up in the source for each duplicate key.
	placesOfKey = 2
)

// duplicates returns the error of groups of rows with equal keys.
func (l *loader) duplicates(ctx context.Context, groups []*ingest.DuplicateGroup) error {
	groups = groups[:min(len(groups), l.maxErrors())]
	e := new(DuplicateError)
	keys := make([][]byte, len(groups))
	for i, g := range groups {
		keys[i] = g.Key
		e.Duplicates = append(e.Duplicates, Duplicate{Err: l.keyExists(g), Rows: g.Rows})
	}
	places, err := l.source.Places(ctx, keys, placesOfKey*len(keys))
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		e.Unlisted = fmt.Errorf("load: find duplicate rows: %w", err)
		return e
	}
	for i, key := range keys {
		d := &e.Duplicates[i]
		d.Places = places[string(key)]
		slices.SortFunc(d.Places, comparePlaces)
	}
	return e
}

// keyExists returns TiDB's error of a group.
func (l *loader) keyExists(g *ingest.DuplicateGroup) error {
	var value []byte
	if len(g.Values) > 0 {
		value = g.Values[0]
	}
	if g.IndexID == 0 {
		return txn.ExtractKeyExistsErrFromHandle(g.Key, value, l.layout.table)
	}
	return txn.ExtractKeyExistsErrFromIndex(g.Key, value, l.layout.table, g.IndexID)
}

func (l *loader) maxErrors() int { return max(1, l.spec.MaxErrors) }

// MismatchError says that what was written or what the store gives back is not what the source's rows were encoded to.
type MismatchError struct {
	Table string
	// Of names the records or an index.
	Of string
	// Want is what was encoded, Got what was found, in the place that Where names.
	Want, Got ingest.Totals
	Where     string
}

func (e *MismatchError) Error() string {
	sum := func(t ingest.Totals) uint64 { return t.Checksum ^ t.CRC } // there is one of them
	return fmt.Sprintf("load: %s of table %s: %d entries with checksum %x are %s, the source has %d with %x",
		e.Of, e.Table, e.Got.Entries, sum(e.Got), e.Where, e.Want.Entries, sum(e.Want))
}
