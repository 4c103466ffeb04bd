package ingest

// records is a batch of entries in key order, back to back in one buffer.
type records struct {
	// prefix is put before each key that is appended.
	prefix []byte
	data   []byte
	recs   []rec
}

// rec is one entry of records: key data[start:key], value data[key:end].
type rec struct {
	start, key, end uint32
}

func (r *records) reset() {
	r.data = r.data[:0]
	r.recs = r.recs[:0]
}

func (r *records) len() int { return len(r.recs) }

func (r *records) key(i int) []byte {
	e := r.recs[i]
	return r.data[e.start:e.key:e.key]
}

func (r *records) value(i int) []byte {
	e := r.recs[i]
	return r.data[e.key:e.end:e.end]
}

// append adds an entry.
func (r *records) append(key, value []byte) {
	start := uint32(len(r.data))
	r.data = append(append(r.data, r.prefix...), key...)
	mid := uint32(len(r.data))
	r.data = append(r.data, value...)
	r.recs = append(r.recs, rec{start: start, key: mid, end: uint32(len(r.data))})
}

// appendRecord adds an entry whose value lies behind its key, which is klen
// bytes long.
func (r *records) appendRecord(kv []byte, klen uint32) {
	start := uint32(len(r.data))
	r.data = append(append(r.data, r.prefix...), kv...)
	end := uint32(len(r.data))
	r.recs = append(r.recs, rec{start: start, key: end - uint32(len(kv)) + klen, end: end})
}

// cursor reads entries in key order, batch by batch.
type cursor interface {
	// next replaces the content of r by the next entries; none left leaves it
	// empty. The caller owns r.
	next(r *records) error
	// close releases what the cursor holds.
	close() error
}

const (
	batchRecords = 256
	batchBytes   = 32 << 10
)

// keyRange is a half-open range of keys without the index prefix; nil bounds
// are open.
type keyRange struct {
	start, end []byte
}
