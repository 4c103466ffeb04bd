package records

import (
	"encoding/json"
	"fmt"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/util/chunk"

	"fastddl/config"
	"fastddl/ddl/job"
)

// Decode reads a record and the settings of its job, which may be nil.
func Decode(record, settings []byte) (*job.Record, job.Settings, error) {
	r, s := new(job.Record), job.Settings{}
	if err := json.Unmarshal(record, r); err != nil {
		return nil, s, fmt.Errorf("decode record: %w", err)
	}
	if settings != nil && json.Unmarshal(settings, &s) != nil {
		// Those of the global variables, but the indexes do not become public: whether they may is not known.
		s = job.Settings{Publish: config.PublishManual}
	}
	return r, s, nil
}

// Job is a job as it was found; its record may be Unreadable.
type Job struct {
	Record   *job.Record
	Settings job.Settings
}

// Unreadable is the job of a record that cannot be decoded. Who runs it, and by which protocol, is known if it is JSON at least. The
// record of a later version is not Unreadable: it is not damaged, and that version reads it.
func Unreadable(id int64, data []byte, why error) Job {
	r := &job.Record{ID: id, RowID: id, State: model.JobStateNone, Unreadable: why}
	var owned struct {
		Protocol int    `json:"protocol"`
		Owner    string `json:"owner"`
		Epoch    int64  `json:"epoch"`
	}
	if json.Unmarshal(data, &owned) == nil {
		r.Protocol, r.Owner, r.Epoch = owned.Protocol, owned.Owner, owned.Epoch
	}
	if r.Later() {
		r.Unreadable = nil
	}
	return Job{Record: r}
}

// decodeJob returns the job of a row of selectJobs.
func decodeJob(row chunk.Row) Job {
	r, s, err := Decode(row.GetBytes(1), row.GetBytes(2))
	if err != nil {
		return Unreadable(row.GetInt64(0), row.GetBytes(1), err)
	}
	return Job{Record: r, Settings: s}
}

func decodeJobs(rows []chunk.Row) []Job {
	jobs := make([]Job, len(rows))
	for i, row := range rows {
		jobs[i] = decodeJob(row)
	}
	return jobs
}
