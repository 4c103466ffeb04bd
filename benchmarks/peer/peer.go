package peer

import (
	"context"

	"fastddl/sbtest"
)

// Server is a database server with one table. It is used by one goroutine at a
// time, but for Session and the sessions.
type Server interface {
	// Name is short and without blanks.
	Name() string
	// Available returns why the server cannot run on this machine, or nil.
	Available() error
	// Settings are what is set other than by default, as its documents write it.
	Settings() []string

	// Start starts the process and waits until it answers; the first time it makes
	// the store. A server that was stopped starts again with what it holds. After
	// an error it must be killed.
	Start(ctx context.Context) error
	// PID is the process, while it runs.
	PID() int
	// Version is what the running server says it is.
	Version(ctx context.Context) (string, error)
	// Load makes the table and fills it. It reports how many rows there are.
	Load(ctx context.Context, g sbtest.Generator, loaded func(rows int)) error
	// Warm reads the whole table once, so that what can be cached is.
	Warm(ctx context.Context) error
	// Session opens a connection for transactions.
	Session(ctx context.Context) (sbtest.Session, error)
	// Stop ends the process in order. Kill ends it at once; what the server holds
	// may be lost. Neither does anything where no process runs.
	Stop(ctx context.Context) error
	Kill()
}

// System is a way of adding indexes.
type System interface {
	// Name is short and without blanks; Title is for people.
	Name() string
	Title() string
	// Statement is what it runs, with an ellipsis for the index.
	Statement() string
	Traits() Traits
	// Available returns why it cannot run where its server can, or nil.
	Available() error
	// Prepare makes the settings of the running server right for this system.
	Prepare(ctx context.Context) error
	// AddIndex adds the indexes of the case and returns when they can be used.
	AddIndex(ctx context.Context, c Case) error
	// DropIndex drops those indexes of the case that are there, also what is left
	// of an AddIndex that failed.
	DropIndex(ctx context.Context, c Case) error
}

// Traits are what sets a system apart.
type Traits struct {
	// Slow systems take many times longer than the others and are measured less
	// often.
	Slow bool
	// BlocksWrites: writes to the table wait while the index is built.
	BlocksWrites bool
	// Baseline systems are what the project compares itself to: measured on the
	// smallest table, with the plainest case.
	Baseline bool
}

// Peer is a server with the systems that run on it.
type Peer struct {
	Server  Server
	Systems []System
}

// Options say for what the servers are set up.
type Options struct {
	// Dir is the folder in which each server makes one of its own.
	Dir string
	// FastDDL is the project's binary, FastDDLFlags are further flags of its server, FastDDLEnv further variables of its
	// environment.
	FastDDL      string
	FastDDLFlags []string
	FastDDLEnv   []string
	// Rows is the size of the table, from which buffer pools are sized.
	Rows int
	// Cores and MemoryBytes are those of the machine.
	Cores       int
	MemoryBytes uint64
}

// Tunable is the project's server with its own way of adding indexes.
type Tunable interface {
	Server
	// AddIndex and DropIndex are those of System.
	AddIndex(ctx context.Context, c Case) error
	DropIndex(ctx context.Context, c Case) error
	// SetGlobal sets a global variable until the server stops. It reports whether the server knows the variable.
	SetGlobal(ctx context.Context, name, value string) (known bool, err error)
}

// FastDDL is the project's server. Its store is in the same folder for all with the same Dir, of which one may run at a time.
func FastDDL(opts Options) Tunable { return tunable{newFastDDL(opts).own()} }

// All are all peers, those that are not available too.
func All(opts Options) []Peer {
	fastddl, postgres, mariadb := newFastDDL(opts), newPostgres(opts), newMariaDB(opts)
	return []Peer{
		{Server: fastddl, Systems: fastddl.builders()},
		{Server: postgres, Systems: []System{concurrently{postgres}, plain{postgres}}},
		{Server: mariadb, Systems: []System{inplace{mariadb}, ptOSC{mariadb}}},
	}
}

// tableBytes is about what the table takes in a server's pages.
func (o Options) tableBytes() uint64 { return uint64(o.Rows) * 250 }

// buffers is a buffer pool of so many tables, at least a gigabyte and at most
// the share of the machine's memory, in whole megabytes.
func (o Options) buffers(tables uint64, share float64) (megabytes uint64) {
	const least = 1 << 30
	bytes := max(least, tables*o.tableBytes())
	return min(bytes, uint64(share*float64(o.MemoryBytes))) >> 20
}
