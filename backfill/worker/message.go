package worker

import (
	"encoding/gob"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/util/collate"

	"fastddl/backfill"
	"fastddl/backfill/encode"
	"fastddl/backfill/indexstats"
	"fastddl/config"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/kv/pebblekv"
)

// toWorker is a message of the server; one of its fields is set.
type toWorker struct {
	Start  *start
	Limits *limits
	Answer *answer
}

// fromWorker is a message of the worker; one of its fields is set.
type fromWorker struct {
	Begun    bool // the first message: it has received its work
	Event    *wireEvent
	Progress *progress
	Import   *importRequest
	Save     *saveRequest
	Done     *done
}

// start is the first message of the server: what to build.
type start struct {
	// Dir is the folder of the checkpoint, MemTableBytes the size of the memtables of its store.
	Dir           string
	MemTableBytes int64
	Task          task
	Checkpoint    []byte
	Statistics    indexstats.Settings

	// The following are those of the build's options.
	TempDir            string
	TaskBytes          uint64
	TargetFileBytes    uint64
	MaxWorkers         int
	BatchRows          int
	CheckpointInterval time.Duration

	// Collations says that TiDB's new collations are enabled.
	Collations bool
	Limits     limits
}

// limits are what may change during a build.
type limits struct {
	Parts              ingest.Parts
	CheckpointInterval time.Duration
}

// task is an encode.Task as data.
type task struct {
	JobID     int64
	Table     []byte // model.TableInfo as JSON
	Indexes   []int64
	TS        uint64
	SQLMode   mysql.SQLMode
	Location  model.TimeZoneLocation
	Functions *config.FunctionSettings
}

// newTask describes a task.
func newTask(t encode.Task) (task, error) {
	table, err := json.Marshal(t.Table)
	if err != nil {
		return task{}, fmt.Errorf("worker: encode table %s: %w", t.Table.Name.O, err)
	}
	out := task{JobID: t.JobID, Table: table, TS: t.TS, SQLMode: t.SQLMode, Functions: t.Functions}
	for _, idx := range t.Indexes {
		out.Indexes = append(out.Indexes, idx.ID)
	}
	loc := t.Location
	if loc == nil {
		loc = time.UTC
	}
	out.Location.Name = loc.String() // as GetTimeZone of TiDB's pkg/ddl/util has it
	if _, err := time.LoadLocation(out.Location.Name); err != nil || out.Location.Name == "" {
		out.Location.Name = ""
		_, out.Location.Offset = time.Now().In(loc).Zone()
	}
	return out, nil
}

// task returns the task that was described.
func (t *task) task() (encode.Task, error) {
	table := new(model.TableInfo)
	if err := json.Unmarshal(t.Table, table); err != nil {
		return encode.Task{}, fmt.Errorf("worker: decode table: %w", err)
	}
	out := encode.Task{JobID: t.JobID, Table: table, TS: t.TS, SQLMode: t.SQLMode, Functions: t.Functions}
	for _, id := range t.Indexes {
		idx := model.FindIndexInfoByID(table.Indices, id)
		if idx == nil {
			return encode.Task{}, fmt.Errorf("worker: table %s has no index %d", table.Name.O, id)
		}
		out.Indexes = append(out.Indexes, idx)
	}
	var err error
	if out.Location, err = t.Location.GetLocation(); err != nil {
		return encode.Task{}, fmt.Errorf("worker: time zone: %w", err)
	}
	return out, nil
}

// newStart describes the work of a build.
func newStart(w backfill.IngestWork, dir string, memTable int64, l limits) (*start, error) {
	t, err := newTask(w.Task)
	if err != nil {
		return nil, err
	}
	return &start{
		Dir: dir, MemTableBytes: memTable, Task: t, Checkpoint: w.Checkpoint, Statistics: w.Statistics,
		TempDir: w.Options.TempDir, TaskBytes: w.Options.TaskBytes, TargetFileBytes: w.Options.TargetFileBytes, MaxWorkers: w.Options.MaxWorkers,
		BatchRows: w.Options.BatchRows, CheckpointInterval: w.Options.CheckpointInterval,
		Collations: collate.NewCollationEnabled(), Limits: l,
	}, nil
}

// progress is how far the worker is, and what it holds.
type progress struct {
	Build event.Progress
	Use   ingest.Use
}

// importRequest asks the server to import files. The answer has the same ID.
type importRequest struct {
	ID    int64
	Files []pebblekv.UnitFile
}

// saveRequest asks the server to keep a checkpoint of the build.
type saveRequest struct {
	ID         int64
	Checkpoint []byte
}

// answer answers a request; Err is nil if that was done.
type answer struct {
	ID  int64
	Err *wireError
}

// done is the last message of the worker.
type done struct {
	Checkpoint []byte
	Costs      backfill.IngestCosts
	Err        *wireError
}

// stream sends messages of one kind and receives those of another. Send may be called concurrently.
type stream struct {
	conn net.Conn
	mu   sync.Mutex
	enc  *gob.Encoder
	dec  *gob.Decoder
}

func newStream(conn net.Conn) *stream {
	return &stream{conn: conn, enc: gob.NewEncoder(conn), dec: gob.NewDecoder(conn)}
}

func (s *stream) send(message any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enc.Encode(message)
}

func (s *stream) receive(message any) error { return s.dec.Decode(message) }
