package encode

// Emitter takes the entry of row i: the key without the index prefix, klen bytes
// long, and the value behind it. The slice is valid until it returns.
type Emitter func(i int, kv []byte, klen int) error

// Entry is an entry of an index.
type Entry struct {
	Index      int64
	Key, Value []byte
}
