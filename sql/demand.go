package sql

import "github.com/pingcap/tidb/pkg/util/chunk"

const (
	// firstRows is how many rows a client's result is asked for while their size is not known.
	firstRows = 32
	// chunkBytes is how much a chunk of it should have at most.
	chunkBytes = 4 << 20
)

// demand keeps the chunks of a result small where the rows are large. TiDB puts as many rows into a chunk as fit by their
// number, a thousand, and holds them all before it sends the first.
type demand struct {
	most  int // rows that TiDB wants
	asked int // rows that were asked for
	next  int // rows to ask for, 0 while nothing is known
}

// ask sets how many rows req is to get.
func (d *demand) ask(req *chunk.Chunk) {
	if n := req.RequiredRows(); n != d.asked {
		d.most = n
	}
	d.asked = min(d.most, firstRows)
	if d.next > 0 {
		d.asked = min(d.most, d.next)
	}
	req.SetRequiredRows(d.asked, d.most)
}

// got looks at what req got.
func (d *demand) got(req *chunk.Chunk) {
	if n := req.NumRows(); n > 0 {
		d.next = max(1, int(chunkBytes/(req.MemoryUsage()/int64(n)+1)))
	}
}
