package load

import (
	"bytes"
	"context"
	"errors"
	"io"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/backfill/execution"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/internal/parallel"
	"fastddl/kv"
	"fastddl/load/rows"
)

const (
	// samplePlaces is at most at how many chunks rows are sampled, sampleRows how many at each, and sampleBytes bounds the size
	// of their entries.
	samplePlaces = 32
	sampleRows   = 50
	sampleBytes  = 1 << 20
	// maxIntervals is how many intervals a space has at most whose entries are summed up, maxAllIntervals how many all spaces
	// have: their totals are kept in checkpoints.
	maxIntervals, maxAllIntervals = 256, 1024
)

// sample is what was found at some places of the source.
type sample struct {
	keys  [][][]byte // by space, without prefixes
	rows  int64
	bytes int64 // of the rows as they are stored
}

// partition shows the job keys from all over the source, so that it cuts the spaces into parts of about equal size; and cuts the
// spaces into intervals of which what is written is summed up: as cp has cut them, or by the same keys.
func (l *loader) partition(ctx context.Context, job *ingest.Job, cp *checkpoint) (cuts [][][]byte, err error) {
	s, err := l.sample(ctx, cp)
	if err != nil {
		return nil, err
	}
	l.addRowIDs(s, cp)
	most := max(1, min(maxIntervals, maxAllIntervals/len(l.layout.spaces)))
	cuts = make([][][]byte, len(l.layout.spaces))
	for i := range l.layout.spaces {
		prefix := l.layout.spaces[i].spec.Prefix
		for _, key := range cp.Spaces[i].Intervals.Within(kv.PrefixRange(prefix)) {
			cuts[i] = append(cuts[i], key[len(prefix):])
		}
		if len(cuts[i]) == 0 {
			cuts[i] = execution.CutKeys(s.keys[i], most)
		}
		job.Partition(i, s.keys[i])
		job.Cut(i, cuts[i])
	}
	return cuts, nil
}

// sample reads the first rows of chunks from all over the source. A query can be read once only, and has no sample.
func (l *loader) sample(ctx context.Context, cp *checkpoint) (*sample, error) {
	var chosen []rows.Chunk
	for i, n := 0, min(samplePlaces, len(cp.Chunks)); i < n; i++ {
		if c := cp.Chunks[len(cp.Chunks)*i/n]; c.File != "" {
			chosen = append(chosen, c)
		}
	}
	found := make([]sample, len(chosen))
	err := parallel.Do(ctx, len(chosen), l.share.Workers, func(ctx context.Context, i int) error {
		found[i].keys = make([][][]byte, len(l.layout.spaces))
		return l.sampleChunk(ctx, chosen[i], rows.NewIDs(cp.IDs), &found[i])
	})
	sum := &sample{keys: make([][][]byte, len(l.layout.spaces))}
	for _, f := range found {
		sum.rows += f.rows
		sum.bytes += f.bytes
		for i := range f.keys {
			sum.keys[i] = append(sum.keys[i], f.keys[i]...)
		}
	}
	return sum, err
}

// sampleChunk reads the first rows of a chunk. Bad rows are for the workers to report.
func (l *loader) sampleChunk(ctx context.Context, c rows.Chunk, ids *rows.IDs, found *sample) (err error) {
	in, err := l.source.open(ctx, c, ids)
	if err != nil {
		return err
	}
	defer func() { err = errs.Combine(err, in.Close()) }()
	for size := 0; found.rows < sampleRows && size < sampleBytes; {
		pairs, err := in.Next(ctx)
		if errors.Is(err, io.EOF) || errors.As(err, new(*rows.RowError)) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, p := range pairs {
			at, _, err := l.layout.find(p.Key)
			if err != nil {
				return err
			}
			found.keys[at] = append(found.keys[at], bytes.Clone(p.Key[len(l.layout.spaces[at].spec.Prefix):]))
			size += len(p.Key) + len(p.Val)
			if at == 0 {
				found.bytes += int64(len(p.Val))
			}
		}
		found.rows++
	}
	return nil
}

// addRowIDs replaces the sampled keys of records whose row IDs are generated, in an ascending order: those of all rows will be as many
// as there are rows.
func (l *loader) addRowIDs(s *sample, cp *checkpoint) {
	t := l.layout.table
	if s.rows == 0 || t.HasClusteredIndex() || t.ShardRowIDBits > 0 || t.GetPartitionInfo() != nil {
		return
	}
	// A row is about as long in the source as in the store.
	var source int64
	for _, c := range cp.Chunks {
		source += c.Weight()
	}
	n := max(1, source*s.rows/max(1, s.bytes))
	first := cp.IDs.RowID
	s.keys[0] = s.keys[0][:0]
	const keys = samplePlaces * sampleRows
	prefix := len(l.layout.spaces[0].spec.Prefix)
	for i := range int64(keys) {
		key := tablecodec.EncodeRecordKey(tablecodec.GenTableRecordPrefix(t.ID), tidbkv.IntHandle(first+n/keys*i))
		s.keys[0] = append(s.keys[0], key[prefix:])
	}
}
