package stmt

import (
	"context"
	"errors"
	"time"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
)

// Session is what the package needs of a session.
type Session interface {
	// CommitImplicitly commits what is open, as MySQL does before a statement
	// that changes schemas, and leaves neither a transaction nor the mark of an
	// explicit one.
	CommitImplicitly(ctx *gms.Context) error
	// SetLocking marks the running statement as one whose reads lock. The parser
	// only ever sets the mark, since it also parses views and defaults in the
	// middle of a statement; the session clears it when a command begins.
	SetLocking(locking bool)
	// Location is the session's time zone.
	Location() *time.Location
	// ReorgPriority is the session's tidb_ddl_reorg_priority.
	ReorgPriority() string
}

// DDL executes data definition statements and controls their jobs. Its errors
// carry MySQL numbers in any form that sqlerr.Translate knows.
type DDL interface {
	// Execute runs a whole statement as one job and waits for its end. When ctx
	// ends first, it cancels the job, waits until that has taken effect, and
	// returns the job's error or ctx's.
	Execute(ctx context.Context, req Request) ([]Warning, error)
	// Jobs lists the jobs: unfinished ones first, then finished ones, newest
	// first.
	Jobs(ctx context.Context) ([]JobInfo, error)
	// Cancel, Pause and Resume return one error for each id, nil for success.
	Cancel(ctx context.Context, ids []int64) []error
	Pause(ctx context.Context, ids []int64) []error
	Resume(ctx context.Context, ids []int64) []error
	// Alter changes settings of a job.
	Alter(ctx context.Context, id int64, a Alteration) error
	// Owner says who executes jobs.
	Owner(ctx context.Context) (OwnerInfo, error)
}

// Request is a data definition statement to execute.
type Request struct {
	Stmt      ast.StmtNode
	SQL       string
	CurrentDB string
	ConnID    uint64
	Loc       *time.Location
	SQLMode   mysql.SQLMode
	Collation string
	// Priority is a value of tidb_ddl_reorg_priority.
	Priority string
}

// Levels of warnings.
const (
	LevelNote    = "Note"
	LevelWarning = "Warning"
	levelError   = "Error"
)

// Warning is what SHOW WARNINGS shows of a statement that succeeded.
type Warning struct {
	Level   string // LevelNote or LevelWarning
	Code    uint16
	Message string
}

// JobInfo describes a job. Zero times, a negative ETA and empty texts are
// unknown.
type JobInfo struct {
	ID            int64
	Schema, Table string
	Type          string // "add index"
	SchemaState   string // "write reorganization"
	SchemaID      int64
	TableID       int64
	RowCount      int64
	Created       time.Time
	Started       time.Time
	Ended         time.Time
	State         string // "running", "synced"
	Done          bool   // no more changes will come
	Comments      string
	Query         string
	Percent       float64 // 0 to 100
	RowsPerSecond float64
	ETA           time.Duration
	Stage         string
	WaitReason    string
	Duplicates    []Duplicate
	// Priority is a value of tidb_ddl_reorg_priority; empty if the job builds no
	// index.
	Priority string
	// Building is what a job that builds indexes has; nil if it does not.
	Building *Building
}

// Building is what a job that builds indexes has of what all share.
type Building struct {
	Workers, MaxWorkers         int
	MemoryBytes, MaxMemoryBytes int64
	TempBytes, MaxTempBytes     int64
	BatchSize                   int
	MaxWriteSpeed               int64 // bytes per second, 0 without a limit
}

// Alteration is what ADMIN ALTER DDL JOBS changes; nil leaves one as it is.
type Alteration struct {
	Threads       *int   // 1 to 256
	BatchSize     *int   // 32 to 10240
	MaxWriteSpeed *int64 // bytes per second, 0 without a limit
}

// Duplicate is rows with the same values in a unique index that a job was to
// add.
type Duplicate struct {
	Index string
	// Entry is the value as error 1062 prints it.
	Entry []byte
	// Rows is the number of rows, of which Handles names the first.
	Rows    int64
	Handles [][]byte
}

// OwnerInfo describes this node and the node that executes jobs.
type OwnerInfo struct {
	SchemaVersion int64
	OwnerID       string
	OwnerAddress  string
	SelfID        string
}

// Checker compares indexes with rows.
type Checker interface {
	// CheckTable checks an index of a table, or all if index is empty. It
	// returns the first difference found as an error that names it.
	CheckTable(ctx context.Context, db, table, index string) error
	// Checksum returns the checksum of everything stored for a table.
	Checksum(ctx context.Context, db, table string) (Checksum, error)
}

// Checksum is an order-independent checksum of a table's pairs.
type Checksum struct {
	CRC64Xor   uint64
	TotalKVs   uint64
	TotalBytes uint64
}

// Options configures a Parser.
type Options struct {
	DDL     DDL     // required
	Checker Checker // required
}

// Validate lists every problem with the options.
func (o *Options) Validate() error {
	var errs []error
	if o.DDL == nil {
		errs = append(errs, errors.New("stmt: DDL is missing"))
	}
	if o.Checker == nil {
		errs = append(errs, errors.New("stmt: Checker is missing"))
	}
	return errors.Join(errs...)
}
