package estimate

import "fastddl/ingest"

// Input is what an estimate is made of.
type Input struct {
	// Rows is the number of the table's rows, by a count if Exact, otherwise with a standard error of RowsError of it.
	Rows      int64
	Exact     bool
	RowsError float64
	// ReadBytes is the size of the keys and values that a scan reads.
	ReadBytes int64
	// Sampled is how many rows were looked at, Complete that these are all.
	Sampled  int64
	Complete bool
	Indexes  []Index
	// Groups is how many groups of partitions are built one after the other; 0 is 1.
	Groups int
	// Full says that the build reads rows and entries a second time.
	Full bool
	// Compared says that rows and entries are compared after the build although no index is unique.
	Compared bool

	Outlook ingest.Outlook
	// Cores is the number of processors.
	Cores int
	// CheckpointSeconds is how long a build scans before it imports what it has.
	CheckpointSeconds float64
	Disks             Disks
	Rates             Rates
	// Nodes is how many nodes build together.
	Nodes int
}

// Index is what is known of an index to be built.
type Index struct {
	Name          string
	Unique        bool
	SampleEntries int64
	SampleBytes   int64
	// Targets is under how many prefixes of keys the entries lie: one for each partition, unless the index is global.
	Targets int64
	// Stored and Sorted are what samples of the entries occupy in one replica of the store, and in a sorted run, from few
	// entries to many.
	Stored, Sorted []Point
	// Repeated is how many sampled entries of a unique index have the key of another one.
	Repeated int64
	// Beginning names an index that begins with the columns already; empty without one.
	Beginning string
}

// Point is what a number of entries, evenly taken from an index, occupies.
type Point struct{ Entries, Bytes int64 }

// Disk is the disk of a folder, in bytes.
type Disk struct {
	// Free is what is free, Kept what builds must leave of it.
	Free, Kept int64
	Known      bool
}

// room is what a build may fill.
func (d Disk) room() int64 { return max(0, d.Free-d.Kept) }

// Disks are those that a build fills.
type Disks struct {
	Temp, Store Disk
	// Shared says that both are one disk.
	Shared bool
	// Replicas is how many copies the store keeps, Stores on how many machines; 1 and 0 of a store in this process.
	Replicas, Stores int
}
