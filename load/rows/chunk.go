package rows

// Chunk is a part of one file, in the form that checkpoints keep.
type Chunk struct {
	// File is the path in the source's storage; empty for a query.
	File string
	// Size is the file's in bytes when the source was opened. A file of another size is refused.
	Size int64
	// Start and End are offsets in the uncompressed file, or row numbers of a Parquet file. End is -1
	// for a compressed file, whose length is not known before it is read.
	Start, End int64
	// Columns are those that the INSERT statement around Start names; only in files of statements.
	Columns []string `json:",omitempty"`
	// Now is the time of the statement in seconds since 1970: the value of CURRENT_TIMESTAMP in all rows.
	Now int64
	// Done reports that no row is left.
	Done bool `json:",omitempty"`
}

// Weight estimates the chunk's share of the work, in bytes of its file.
func (c Chunk) Weight() int64 {
	if c.End < 0 || c.End > c.Size {
		return c.Size
	}
	return max(c.End-c.Start, 1)
}
