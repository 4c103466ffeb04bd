package sbtest

import (
	"io"
	"iter"
	"math/rand/v2"
	"strconv"
)

const (
	// Table is the name of the table.
	Table = "sbtest1"
	// Columns are its columns, in SQL that all systems understand.
	Columns = `
  id INT NOT NULL,
  k INT NOT NULL DEFAULT 0,
  c CHAR(120) NOT NULL DEFAULT '',
  pad CHAR(60) NOT NULL DEFAULT ''`
	// CreateSQL is sysbench's table without its secondary index, for MySQL. Rows
	// bring their IDs. Keys compare as bytes, as they do in PostgreSQL with the
	// locale C.
	CreateSQL = `CREATE TABLE ` + Table + ` (` + Columns + `,
  PRIMARY KEY (id)
) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin`
)

// RowBytes is about what a row takes in a file, without what a system adds.
const RowBytes = 200

// blockRows is the number of rows made from one state of the random numbers.
const blockRows = 10_000

// Groups of digits in the columns c and pad.
const (
	cGroups   = 10
	padGroups = 5
)

// Generator makes the rows 1 to Rows.
type Generator struct {
	Rows int
	Seed uint64
}

// Blocks is the number of blocks the rows are made in.
func (g Generator) Blocks() int {
	return (g.Rows + blockRows - 1) / blockRows
}

// BlockRows is the number of rows of a block.
func (g Generator) BlockRows(block int) int {
	return min(blockRows, g.Rows-block*blockRows)
}

// Row is a row of the table. Its texts are valid until the next row is made.
type Row struct {
	ID, K  int64
	C, Pad []byte
}

// Block returns the rows of a block, in the order of their IDs.
func (g Generator) Block(block int) iter.Seq[Row] {
	return func(yield func(Row) bool) {
		rng := rand.New(rand.NewPCG(g.Seed, uint64(block)))
		first := block*blockRows + 1
		var r Row
		for id := first; id < first+g.BlockRows(block); id++ {
			r.ID, r.K = int64(id), 1+rng.Int64N(int64(g.Rows))
			r.C = appendDigits(r.C[:0], rng, cGroups)
			r.Pad = appendDigits(r.Pad[:0], rng, padGroups)
			if !yield(r) {
				return
			}
		}
	}
}

// AppendBlock appends the rows of a block to dst: a line per row, ended by a
// line feed, with columns separated by tabs. Nothing in them needs escaping.
func (g Generator) AppendBlock(dst []byte, block int) []byte {
	for r := range g.Block(block) {
		dst = strconv.AppendInt(dst, r.ID, 10)
		dst = append(dst, '\t')
		dst = strconv.AppendInt(dst, r.K, 10)
		dst = append(dst, '\t')
		dst = append(dst, r.C...)
		dst = append(dst, '\t')
		dst = append(dst, r.Pad...)
		dst = append(dst, '\n')
	}
	return dst
}

// Reader gives the rows of the blocks first to last-1 as one stream.
func (g Generator) Reader(first, last int) io.Reader {
	return &reader{generator: g, next: first, last: last}
}

type reader struct {
	generator  Generator
	next, last int
	block      []byte // the block that is being read
	unread     []byte // what is left of it
}

func (r *reader) Read(p []byte) (int, error) {
	if len(r.unread) == 0 {
		if r.next >= r.last {
			return 0, io.EOF
		}
		r.block = r.generator.AppendBlock(r.block[:0], r.next)
		r.unread = r.block
		r.next++
	}
	n := copy(p, r.unread)
	r.unread = r.unread[n:]
	return n, nil
}

// C is a new value of the column c.
func C(rng *rand.Rand) string { return string(appendDigits(nil, rng, cGroups)) }

// Pad is a new value of the column pad.
func Pad(rng *rand.Rand) string { return string(appendDigits(nil, rng, padGroups)) }

// appendDigits appends text as sysbench makes it: groups of eleven digits.
func appendDigits(dst []byte, rng *rand.Rand, groups int) []byte {
	for g := range groups {
		if g > 0 {
			dst = append(dst, '-')
		}
		v := rng.Uint64()
		for range 11 {
			dst = append(dst, byte('0'+v%10))
			v /= 10
		}
	}
	return dst
}
