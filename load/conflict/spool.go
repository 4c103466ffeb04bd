package conflict

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"

	"github.com/cespare/xxhash/v2"
)

// Policy says which of several rows with an equal key stays.
type Policy int

const (
	// First: the first row stays, and those after it are dropped with a warning.
	First Policy = iota
	// Last: a row replaces those before it.
	Last
)

// Pair is a record or an index entry.
type Pair struct{ Key, Value []byte }

// Row is a row as it is encoded.
type Row struct {
	// Pairs are the record, which is the first, and the index entries in the order of the table's indexes.
	Pairs []Pair
	// Rejected says that the row is not stored, because it violates a constraint. It replaces other rows all the same.
	Rejected bool
}

// Options configures a Spool.
type Options struct {
	// Dir is the folder for temporary files.
	Dir    string
	Policy Policy
	// Unique says that no two rows may have a key, and of which index it is; 0 is the record.
	Unique func(key []byte) (index int64, unique bool)
	// Exists returns the error of a row's pair whose key another row has.
	Exists func(index int64, key, value []byte) error
	// Occupy is called before bytes are written to Dir, and with a negative number when files are removed. Its error is that of Add.
	Occupy func(bytes int64) error
	// MaxState is how many bytes the keys of rows in conflict, and the hashes of keys that come more than once, may take together; 0 is
	// 128 MiB.
	MaxState int64
	// MaxWarnings is how many errors of dropped rows are kept.
	MaxWarnings int

	// hashesInMemory is how many hashes each part keeps in memory; 0 is 4096. oneHash is for tests: all keys have the same hash.
	hashesInMemory int
	oneHash        bool
}

// Spool keeps rows until it is known which of them stay. It must be used by one goroutine at a time, and be closed.
type Spool struct {
	opts   Options
	seed   maphash.Seed
	parts  [hashParts]part
	shared map[uint64]struct{}

	file     *os.File
	out      *bufio.Writer
	in       *bufio.Reader
	at       int64 // the number of the row that is read next
	buf      []byte
	occupied int64 // of disk, granted
	used     int64 // of disk

	rows    int64
	dropped bitmap
	result  Result
}

// Result is what was decided.
type Result struct {
	// Copied, Deleted and Affected are counted as TiDB's LOAD DATA counts them.
	Copied, Deleted, Affected int64
	// Warnings are the errors of dropped rows, in the order of the file.
	Warnings []error
}

const (
	bufferBytes = 1 << 20
	// grantBytes is how much of the disk is asked for at a time.
	grantBytes = 1 << 20
	maxState   = 128 << 20
)

// New returns a spool without rows.
func New(opts Options) (*Spool, error) {
	if opts.MaxState == 0 {
		opts.MaxState = maxState
	}
	if opts.hashesInMemory == 0 {
		opts.hashesInMemory = 4096
	}
	file, err := Unnamed(opts.Dir)
	if err != nil {
		return nil, err
	}
	return &Spool{opts: opts, seed: maphash.MakeSeed(), file: file, out: bufio.NewWriterSize(file, bufferBytes)}, nil
}

// Unnamed returns a temporary file in a folder, which it makes. The file is gone when it is closed, or when the process ends.
func Unnamed(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("conflict: temporary file: %w", err)
	}
	file, err := os.CreateTemp(dir, "rows-*")
	if err != nil {
		return nil, fmt.Errorf("conflict: temporary file: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("conflict: temporary file: %w", err), file.Close())
	}
	return file, nil
}

// occupy asks for bytes of the disk.
func (s *Spool) occupy(n int64) error {
	s.used += n
	if s.used <= s.occupied {
		return nil
	}
	more := max(s.used-s.occupied, grantBytes)
	if err := s.opts.Occupy(more); err != nil {
		return err
	}
	s.occupied += more
	return nil
}

// Add adds a row behind those before.
func (s *Spool) Add(row Row) error {
	s.rows++
	b := append(s.buf[:0], 0)
	if row.Rejected {
		b[0] = 1
		s.dropped.set(s.rows - 1)
	}
	b = binary.AppendUvarint(b, uint64(len(row.Pairs)))
	for _, p := range row.Pairs {
		if _, unique := s.opts.Unique(p.Key); unique {
			if err := s.addHash(s.hash(p.Key)); err != nil {
				return err
			}
		}
		b = append(binary.AppendUvarint(b, uint64(len(p.Key))), p.Key...)
		b = append(binary.AppendUvarint(b, uint64(len(p.Value))), p.Value...)
	}
	var head [binary.MaxVarintLen64 + 8]byte
	h := binary.LittleEndian.AppendUint64(binary.AppendUvarint(head[:0], uint64(len(b))), xxhash.Sum64(b))
	s.buf = b
	if err := s.occupy(int64(len(h) + len(b))); err != nil {
		return err
	}
	if _, err := s.out.Write(h); err != nil {
		return fmt.Errorf("conflict: write rows: %w", err)
	}
	if _, err := s.out.Write(b); err != nil {
		return fmt.Errorf("conflict: write rows: %w", err)
	}
	return nil
}

// rewind begins reading at the first row.
func (s *Spool) rewind() error {
	if s.out != nil {
		if err := s.out.Flush(); err != nil {
			return fmt.Errorf("conflict: write rows: %w", err)
		}
		s.out = nil
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("conflict: read rows: %w", err)
	}
	s.in, s.at = bufio.NewReaderSize(s.file, bufferBytes), 0
	return nil
}

// Next returns the pairs of the next row that stays, valid until the next call; io.EOF behind the last. Decide must have been called.
func (s *Spool) Next() ([]Pair, error) {
	for {
		row, err := s.read()
		if err != nil {
			return nil, err
		}
		if !s.dropped.has(s.at - 1) {
			return row.Pairs, nil
		}
	}
}

var errCorrupt = errors.New("conflict: the temporary file has not what was written to it")

// read returns the next row; io.EOF behind the last.
func (s *Spool) read() (row Row, err error) {
	if s.at == s.rows {
		return row, io.EOF
	}
	n, err := binary.ReadUvarint(s.in)
	if err == nil && n > uint64(s.used) {
		err = errCorrupt
	}
	if err != nil {
		return row, fmt.Errorf("conflict: read row %d: %w", s.at+1, err)
	}
	var sum [8]byte
	if uint64(cap(s.buf)) < n {
		s.buf = make([]byte, n)
	}
	b := s.buf[:n]
	if _, err = io.ReadFull(s.in, sum[:]); err == nil {
		_, err = io.ReadFull(s.in, b)
	}
	if err == nil && (len(b) == 0 || xxhash.Sum64(b) != binary.LittleEndian.Uint64(sum[:])) {
		err = errCorrupt
	}
	if err != nil {
		return row, fmt.Errorf("conflict: read row %d: %w", s.at+1, err)
	}
	s.at++
	return decode(b)
}

// decode returns the row of what Add has written.
func decode(b []byte) (row Row, err error) {
	row.Rejected = b[0] == 1
	b = b[1:]
	number := func() uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			err, n, size = errCorrupt, 0, 0
		}
		b = b[size:]
		return n
	}
	bytes := func() []byte {
		n := number()
		if n > uint64(len(b)) {
			err, n = errCorrupt, 0
		}
		part := b[:n:n]
		b = b[n:]
		return part
	}
	for range number() {
		row.Pairs = append(row.Pairs, Pair{Key: bytes(), Value: bytes()})
		if err != nil {
			return Row{}, err
		}
	}
	return row, err
}

// Decide decides which rows stay. No row can be added any more.
func (s *Spool) Decide(ctx context.Context) (Result, error) {
	s.result = Result{Copied: s.rows, Affected: s.rows - s.dropped.count}
	if err := s.findShared(); err != nil {
		return Result{}, err
	}
	if err := s.rewind(); err != nil {
		return Result{}, err
	}
	if len(s.shared) == 0 {
		return s.result, nil
	}
	d := decision{s: s, owners: make(map[string]*owner)}
	for {
		if s.at%1024 == 0 && ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		row, err := s.read()
		if err == io.EOF {
			return s.result, s.rewind()
		}
		if err == nil {
			err = d.row(row)
		}
		if err != nil {
			return Result{}, err
		}
	}
}

// Close removes the files. Closing twice does nothing.
func (s *Spool) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	for i := range s.parts {
		err = errors.Join(err, s.parts[i].close())
	}
	return errors.Join(err, s.opts.Occupy(-s.occupied))
}

// bitmap is a set of numbers of rows.
type bitmap struct {
	words []uint64
	count int64
}

func (b *bitmap) set(n int64) {
	for int64(len(b.words)) <= n/64 {
		b.words = append(b.words, 0)
	}
	if !b.has(n) {
		b.words[n/64] |= 1 << (n % 64)
		b.count++
	}
}

func (b *bitmap) has(n int64) bool { return n/64 < int64(len(b.words)) && b.words[n/64]>>(n%64)&1 == 1 }
