package sql

import "github.com/pingcap/tidb/pkg/util/chunk"

const (
	// firstRows is how many rows a client's result is asked for while their size is unknown.
	firstRows = 32
	// chunkBytes is the most that a chunk of a result should hold.
	chunkBytes = 4 << 20
)

// demand keeps the chunks of a result small where the rows are large. TiDB puts as many rows into a chunk as fit by their
// number, a thousand, and holds them all before it sends the first.
type demand struct {
	most  int // rows that TiDB asked for
	asked int // rows that the last request was lowered to
	next  int // rows to ask for next; 0 while the size of rows is unknown
}

// ask lowers the number of rows that req asks for.
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

// got sets the next number of rows from the size of those in req.
func (d *demand) got(req *chunk.Chunk) {
	if n := req.NumRows(); n > 0 {
		d.next = max(1, int(chunkBytes/(req.MemoryUsage()/int64(n)+1)))
	}
}
