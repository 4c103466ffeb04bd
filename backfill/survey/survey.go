package survey

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fastddl/backfill/encode"
	"fastddl/ingest"
	"fastddl/kv"
)

// Options bounds a survey.
type Options struct {
	// Store holds the table.
	Store kv.Store
	// Places is at how many places rows are read, Rows how many at each; 0 is 64 and 256.
	Places, Rows int
	// Bytes bounds what is read of rows, over all places; 0 is 32 MiB.
	Bytes int64
	// PlanFor, SampleFor and CountFor bound the time in which the table's ranges are looked up, rows are read, and rows are
	// counted; 0 is 400 ms, 400 ms and 900 ms.
	PlanFor, SampleFor, CountFor time.Duration
	// Seed chooses the ranges that are counted.
	Seed uint64
}

const (
	defaultPlaces, defaultRows = 64, 256
	defaultBytes               = 32 << 20
	defaultTime                = 400 * time.Millisecond
	defaultCountTime           = 900 * time.Millisecond
	// maxPhysicals is how many partitions of a table are looked at; the others are taken to be like them.
	maxPhysicals = 256
)

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	if o.Places == 0 {
		o.Places = defaultPlaces
	}
	if o.Rows == 0 {
		o.Rows = defaultRows
	}
	if o.Bytes == 0 {
		o.Bytes = defaultBytes
	}
	for _, d := range []*time.Duration{&o.PlanFor, &o.SampleFor} {
		if *d == 0 {
			*d = defaultTime
		}
	}
	if o.CountFor == 0 {
		o.CountFor = defaultCountTime
	}
}

// Survey is what was found.
type Survey struct {
	// Rows is the number of rows; Exact says that they were counted, otherwise RowsError is the standard error as a part of it.
	Rows      int64
	Exact     bool
	RowsError float64
	// StoredBytes is what the table's rows occupy in the store, as far as it knows; 0 if it does not.
	StoredBytes uint64
	// ReadBytes is the size of the keys and values that a scan reads.
	ReadBytes int64
	// Sampled is how many rows were read, Complete that these are all.
	Sampled  int64
	Complete bool
	// Indexes are what the entries of the sample say, in the order of the task.
	Indexes []Index
	// RowError is the error of sampled rows that an index has no entries for; nil without such rows. BadRows is their number.
	RowError error
	BadRows  int64
}

// Index is what the sample says of one index.
type Index struct {
	// Entries is how many entries the sampled rows have, Bytes the length of their keys, without the prefix of the index,
	// and values.
	Entries, Bytes int64
	// Stored and Sorted say what entries occupy in the store and in a sorted run, by how many there are: the closer keys
	// lie together, the more they have in common.
	Stored, Sorted []Density
	// Repeated is how many entries of a unique index have the key of another one, Duplicates some of them.
	Repeated   int64
	Duplicates []*ingest.DuplicateGroup
}

// Density is what some entries, evenly taken from the index, occupy together.
type Density struct{ Entries, Bytes int64 }

// ErrNothingRead says that no row could be read in the time, or none was in the partitions that were looked at.
var ErrNothingRead = errors.New("survey: no row was read in time")

// Take surveys the table of a task, at the task's timestamp, which must be recent. It fails with encode.ErrUnsupported, ErrNothingRead, an
// error of TiDB's from evaluating an expression, or one of the store.
func Take(ctx context.Context, opts Options, task encode.Task) (*Survey, error) {
	opts.EnsureDefaults()
	if err := task.Validate(); err != nil {
		return nil, err
	}
	p, err := encode.NewProjection(&task)
	if err != nil {
		return nil, err
	}
	v := &surveyor{opts: opts, task: task, projection: p}
	if err := v.plan(ctx); err != nil {
		return nil, fmt.Errorf("survey: ranges of table %s: %w", task.Table.Name.O, err)
	}
	out := &Survey{StoredBytes: v.storedBytes(), Indexes: make([]Index, len(task.Indexes))}
	if len(v.ranges) == 0 && v.scale != 1 { // there may be rows in the other partitions
		return nil, fmt.Errorf("survey: partitions of table %s: %w", task.Table.Name.O, ErrNothingRead)
	}
	if len(v.ranges) == 0 { // an empty table
		out.Exact, out.Complete = true, true
		return out, nil
	}
	sample, err := v.sample(ctx)
	if err != nil {
		return nil, fmt.Errorf("survey: sample of table %s: %w", task.Table.Name.O, err)
	}
	out.Sampled, out.Complete = sample.rows, sample.complete && v.scale == 1
	if err := v.countRows(ctx, sample, out); err != nil {
		return nil, fmt.Errorf("survey: rows of table %s: %w", task.Table.Name.O, err)
	}
	if out.Rows == 0 && v.scale != 1 {
		return nil, fmt.Errorf("survey: rows of table %s: %w", task.Table.Name.O, ErrNothingRead)
	}
	if sample.rows > 0 {
		out.ReadBytes = int64(float64(sample.bytes) / float64(sample.rows) * float64(out.Rows))
	}
	out.RowError, out.BadRows = sample.rowError, sample.badRows
	for k := range task.Indexes {
		if out.Indexes[k], err = v.measure(ctx, k, sample); err != nil {
			return nil, fmt.Errorf("survey: entries of index %s: %w", task.Indexes[k].Name.O, err)
		}
	}
	return out, nil
}
