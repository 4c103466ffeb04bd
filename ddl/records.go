package ddl

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"fastddl/catalog"
	"fastddl/ddl/job"
)

// Hashes under the metadata prefix. Fields are IDs, big-endian, so that they
// sort.
var (
	jobsHash         = []byte("FastDDLJobs")
	historyHash      = []byte("FastDDLHistory")
	checkpointsHash  = []byte("FastDDLCheckpoints")
	deleteRangesHash = []byte("FastDDLDeleteRanges")
)

func idField(id int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(id)) }

// putRecord writes the record of a job: to the queue, or, if the job has ended,
// from there to the history.
func putRecord(m *catalog.Mutation, j *job.Job) error {
	data, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("encode job %d: %w", j.ID, err)
	}
	s := m.Structure()
	if !j.Ended() {
		return s.HSet(jobsHash, idField(j.ID), data)
	}
	if err := s.HDel(jobsHash, idField(j.ID)); err != nil {
		return err
	}
	if err := s.HDel(checkpointsHash, idField(j.ID)); err != nil {
		return err
	}
	return s.HSet(historyHash, idField(j.ID), data)
}

func decodeJob(data []byte) (*job.Job, error) {
	j := new(job.Job)
	if err := json.Unmarshal(data, j); err != nil {
		return nil, fmt.Errorf("decode job: %w", err)
	}
	return j, nil
}

// loadQueue returns all jobs that have not ended, in order of ID.
func loadQueue(ctx context.Context, c *catalog.Catalog) (jobs []*job.Job, err error) {
	err = c.View(ctx, func(_ context.Context, m *catalog.Mutation) error {
		pairs, err := m.Structure().HGetAll(jobsHash)
		if err != nil {
			return err
		}
		for _, p := range pairs {
			j, err := decodeJob(p.Value)
			if err != nil {
				return err
			}
			jobs = append(jobs, j)
		}
		return nil
	})
	return jobs, err
}

// reread returns the record of a job as it is stored, in the queue or in the
// history, or nil. It settles what the record is: all writes of the owner lock the
// record of the term, as does this, so one that is still under way and was not
// seen here cannot commit any more. In a term that has ended it fails with
// ErrNotOwner.
func (d *DDL) reread(ctx context.Context, id int64) (j *job.Job, err error) {
	err = d.update(ctx, func(_ context.Context, m *catalog.Mutation) error {
		s := m.Structure()
		data, err := s.HGet(jobsHash, idField(id))
		if err == nil && data == nil {
			data, err = s.HGet(historyHash, idField(id))
		}
		j = nil
		if err == nil && data != nil {
			j, err = decodeJob(data)
		}
		return err
	})
	return j, err
}

// loadHistory returns the newest n jobs that have ended, newest first.
func loadHistory(ctx context.Context, c *catalog.Catalog, n int) (jobs []*job.Job, err error) {
	err = c.View(ctx, func(_ context.Context, m *catalog.Mutation) error {
		pairs, err := m.Structure().HGetLastN(historyHash, n)
		if err != nil {
			return err
		}
		for _, p := range pairs {
			j, err := decodeJob(p.Value)
			if err != nil {
				return err
			}
			jobs = append(jobs, j)
		}
		return nil
	})
	return jobs, err
}

// inHistory says whether a job has ended.
func inHistory(ctx context.Context, c *catalog.Catalog, id int64) (ended bool, err error) {
	err = c.View(ctx, func(_ context.Context, m *catalog.Mutation) error {
		data, err := m.Structure().HGet(historyHash, idField(id))
		ended = data != nil
		return err
	})
	return ended, err
}

func loadCheckpoint(ctx context.Context, c *catalog.Catalog, id int64) (data []byte, err error) {
	err = c.View(ctx, func(_ context.Context, m *catalog.Mutation) error {
		data, err = m.Structure().HGet(checkpointsHash, idField(id))
		return err
	})
	return data, err
}

func (d *DDL) saveCheckpoint(ctx context.Context, id int64, data []byte) error {
	return d.update(ctx, func(_ context.Context, m *catalog.Mutation) error {
		return m.Structure().HSet(checkpointsHash, idField(id), data)
	})
}

// deleteRange is dropped data that is still to be deleted.
type deleteRange struct {
	// ID is unique among all ranges.
	ID    int64     `json:"id"`
	JobID int64     `json:"job_id"`
	Range job.Range `json:"range"`
	// TS is a time at which nobody writes the range any more and no new snapshot
	// uses it: it can go when the GC safe point has passed TS.
	TS uint64 `json:"ts"`
}

func putDeleteRanges(m *catalog.Mutation, jobID int64, ts uint64, ranges []job.Range) error {
	if len(ranges) == 0 {
		return nil
	}
	ids, err := m.GenGlobalIDs(len(ranges))
	if err != nil {
		return err
	}
	for i, r := range ranges {
		data, err := json.Marshal(deleteRange{ID: ids[i], JobID: jobID, Range: r, TS: ts})
		if err != nil {
			return fmt.Errorf("encode delete range of job %d: %w", jobID, err)
		}
		if err := m.Structure().HSet(deleteRangesHash, idField(ids[i]), data); err != nil {
			return err
		}
	}
	return nil
}

func loadDeleteRanges(ctx context.Context, c *catalog.Catalog) (out []deleteRange, err error) {
	err = c.View(ctx, func(_ context.Context, m *catalog.Mutation) error {
		pairs, err := m.Structure().HGetAll(deleteRangesHash)
		if err != nil {
			return err
		}
		for _, p := range pairs {
			var r deleteRange
			if err := json.Unmarshal(p.Value, &r); err != nil {
				return fmt.Errorf("decode delete range: %w", err)
			}
			out = append(out, r)
		}
		return nil
	})
	return out, err
}
