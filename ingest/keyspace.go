package ingest

// KeySpace is a range of keys that is sorted and written by itself: the entries of an index, or the records of a table.
type KeySpace struct {
	// ID names the space in errors and in names of files: it is the ID of an index, or 0 of records.
	ID int64
	// Prefix begins all keys of the space: t{tableID}_i{indexID} or t{tableID}_r, or as much of it as the keys of several
	// physical tables share. Then FileKey is set.
	Prefix []byte
	// FileKey is how many bytes behind Prefix the keys of one file share. Without it files of spaces whose keys lie between each
	// other would overlap.
	FileKey int
	// Records says that values are rows, which may be as long as MaxRecordSize.
	Records bool
	// Unique says that equal keys are a duplicate.
	Unique bool
	// Once says that no entry is appended a second time, by this job or by an earlier one: then entries that are equal as a whole
	// are a duplicate, too. Otherwise they are one entry that was built twice.
	Once bool
	// Imported says that the store has entries of the space already, from an
	// earlier job: when duplicates are searched, entries are compared with those, too.
	Imported bool
	// Columns is how many columns the keys have, if the distribution of their values is to be summed up; 0 does not. They begin Skip
	// bytes behind Prefix. With a FileKey there is a distribution for each: it is for few of them.
	Columns, Skip int
	// Sampled takes a sample of the hashes of values, too: see distribution.Summary.Sample.
	Sampled bool
}
