package ingest

import (
	"context"
	"errors"
	"fmt"

	"fastddl/kv"
)

// newStored returns a cursor over what the store has of the range r of an index.
func newStored(snap kv.Snapshot, prefix []byte, r keyRange) (cursor, error) {
	whole := kv.KeyRange{Start: concat(prefix, r.start), End: kv.PrefixNext(prefix)}
	if r.end != nil {
		whole.End = concat(prefix, r.end)
	}
	iter, err := snap.Iter(whole)
	if err != nil {
		return nil, fmt.Errorf("ingest: read index: %w", err)
	}
	if versioned, ok := iter.(kv.VersionedIterator); ok {
		return &storedCursor{iter: iter, versions: versioned, version: snap.TS(), prefix: prefix}, nil
	}
	if versioned, ok := snap.(kv.VersionedSnapshot); ok {
		return &doubtfulCursor{storedCursor{iter: iter, prefix: prefix}, versioned}, nil
	}
	return nil, errors.Join(errors.New("ingest: the store does not tell versions"), iter.Close())
}

// storedCursor reads the entries that the job has imported already. It skips older ones:
// DML has written them, or a build that lost its snapshot, and the row may have passed
// its value to another row before the job's snapshot.
type storedCursor struct {
	iter     kv.Iterator
	versions kv.VersionedIterator // iter, if that has versions; otherwise nothing is skipped
	version  uint64
	prefix   []byte
}

func (c *storedCursor) next(out *records) error {
	out.reset()
	for out.len() < batchRecords && len(out.data) < batchBytes && c.iter.Valid() {
		if c.versions == nil || c.versions.TS() == c.version {
			out.append(c.iter.Key()[len(c.prefix):], c.iter.Value())
		}
		if err := c.iter.Next(); err != nil {
			return fmt.Errorf("ingest: read index: %w", err)
		}
	}
	return nil
}

func (c *storedCursor) close() error { return c.iter.Close() }

// doubtfulCursor reads the entries of a store whose iterators return no versions. It returns
// older entries too. For the few that another entry contradicts, older looks the version up.
type doubtfulCursor struct {
	storedCursor
	snap kv.VersionedSnapshot
}

// older reports whether an entry is older than the job's. key is without the index prefix.
func (c *doubtfulCursor) older(ctx context.Context, key []byte) (bool, error) {
	version, err := c.snap.Version(ctx, concat(c.prefix, key))
	if err != nil {
		return false, fmt.Errorf("ingest: version of an entry: %w", err)
	}
	return version < c.snap.TS(), nil
}
