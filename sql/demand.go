package sql

import "github.com/pingcap/tidb/pkg/util/chunk"

const (
	// firstRows is how many rows a client's result is asked for while their size is unknown.
	firstRows = 32
	// chunkBytes is the most that a chunk of a result should hold.
	chunkBytes = 4 << 20
	// sampledRows is how many rows of a chunk are measured.
	sampledRows = 8
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
	if d.asked < d.most {
		req.Reset() // executors let a chunk grow that they find full, and forget what it is to get
	}
	req.SetRequiredRows(d.asked, d.most)
}

// got sets the next number of rows from the size of those in req.
func (d *demand) got(req *chunk.Chunk) {
	n := req.NumRows()
	if n == 0 {
		return
	}
	step := (n + sampledRows - 1) / sampledRows
	sampled, bytes := 0, 0
	for i := 0; i < n; i += step {
		row := req.GetRow(i)
		sampled++
		for c := range row.Len() {
			bytes += len(row.GetRaw(c))
		}
	}
	d.next = max(1, chunkBytes/(bytes/sampled+1))
}
