package data

import (
	"io"
	"math/rand/v2"
	"strconv"
)

// Table is the name of the measured table: id INT PRIMARY KEY, k INT,
// c CHAR(120), pad CHAR(60).
const Table = "sbtest1"

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

// AppendBlock appends the rows of a block to dst: a line per row, ended by a
// line feed, with columns separated by tabs. Nothing in them needs escaping.
func (g Generator) AppendBlock(dst []byte, block int) []byte {
	rng := rand.New(rand.NewPCG(g.Seed, uint64(block)))
	first := block*blockRows + 1
	for id := first; id < first+g.BlockRows(block); id++ {
		dst = strconv.AppendInt(dst, int64(id), 10)
		dst = append(dst, '\t')
		dst = strconv.AppendInt(dst, 1+rng.Int64N(int64(g.Rows)), 10)
		dst = append(dst, '\t')
		dst = appendDigits(dst, rng, cGroups)
		dst = append(dst, '\t')
		dst = appendDigits(dst, rng, padGroups)
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
