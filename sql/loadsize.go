package sql

import (
	"bytes"
	"context"
	"errors"
	"io"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	tidbmemory "github.com/pingcap/tidb/pkg/util/memory"
	"github.com/pingcap/tidb/pkg/util/sqlkiller"

	"fastddl/internal/errs"
	"fastddl/load/jobs"
	"fastddl/load/rows"
)

// This file decides whether a file of LOAD DATA fits into one transaction.

// What a transaction takes of memory for LOAD DATA, in bytes, with some to spare: measured were nearly 1 KiB a row with one index, and less
// than three times the bytes of long rows.
const (
	memoryOfByte  = 4
	memoryOfRow   = 1024
	memoryOfIndex = 512 // of a row
	// maxBegun is how much of a client's file is held in memory until it is decided what is done with it.
	maxBegun = 64 << 20
	// maxBegunPacked is maxBegun of a compressed file.
	maxBegunPacked = 4 << 20
	// defaultLoadMemory is what a transaction may take where no limit is set.
	defaultLoadMemory = 1 << 30
)

// loadMemory is what a transaction of LOAD DATA may take of memory: so much is left of each limit that it does not fail beside others.
func loadMemory(vars *variable.SessionVars) int64 {
	most := int64(defaultLoadMemory)
	if quota := vars.MemQuotaQuery; quota > 0 {
		most = min(most, quota/2)
	}
	if limit := tidbmemory.ServerMemoryLimit.Load(); limit > 0 {
		most = min(most, int64(limit/4))
	}
	if limit := tidbkv.TxnTotalSizeLimit.Load(); limit > 0 {
		most = min(most, int64(limit/2))
	}
	return most
}

// loadSize adds up what a transaction would take for a file.
type loadSize struct {
	most    int64 // bytes of memory
	ofRow   int64
	lineEnd byte
	sum     int64
}

// newLoadSize returns the size of no file.
func (s *clientSession) newLoadSize(ctx context.Context, load *ast.LoadDataStmt) *loadSize {
	size := &loadSize{most: loadMemory(s.GetSessionVars()), ofRow: memoryOfRow, lineEnd: '\n'}
	if lines := load.LinesInfo; lines != nil && lines.Terminated != nil && *lines.Terminated != "" {
		size.lineEnd = (*lines.Terminated)[len(*lines.Terminated)-1]
	}
	if name := load.Table; name != nil {
		db := name.Schema
		if db.L == "" {
			db = pmodel.NewCIStr(s.GetSessionVars().CurrentDB)
		}
		if table, err := s.layer.dom.InfoSchema().TableByName(ctx, db, name.Name); err == nil {
			size.ofRow += int64(len(table.Meta().Indices)) * memoryOfIndex
		}
	}
	return size
}

// add adds a part of a file.
func (z *loadSize) add(b []byte) {
	z.sum += memoryOfByte*int64(len(b)) + z.ofRow*int64(bytes.Count(b, []byte{z.lineEnd}))
}

func (z *loadSize) large() bool { return z.sum > z.most }

// addAll adds all of r, unless it is large before.
func (z *loadSize) addAll(r io.Reader) error {
	b := make([]byte, 256<<10)
	for !z.large() {
		n, err := r.Read(b)
		z.add(b[:n])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// begunFile is a client's file of which a part was read. It is read from its beginning.
type begunFile struct {
	begun  [][]byte
	memory *tidbmemory.Tracker // has the bytes of begun
	rest   io.ReadCloser       // nil if it was read to its end
	spool  *jobs.FileSpool     // has the file instead, if set
	size   int64               // of what was read from the client
	// stop, if set, is why reading fails.
	stop func() error
}

// begin reads a file until it is known whether it is large. What it has read is in memory, which the statement accounts for.
func (z *loadSize) begin(name string, file io.ReadCloser, memory *tidbmemory.Tracker) (_ *begunFile, err error) {
	f := &begunFile{rest: file, memory: memory}
	packed := rows.Packed(name)
	for !z.large() {
		b := make([]byte, 256<<10)
		n, err := io.ReadFull(file, b)
		f.begun, f.size = append(f.begun, b[:n]), f.size+int64(n)
		f.memory.Consume(int64(n))
		if !packed {
			z.add(b[:n])
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			f.rest = nil
			if packed {
				z.addPacked(name, f.begun)
			}
			return f, file.Close()
		}
		if err != nil {
			f.forget()
			return nil, errs.Combine(err, file.Close())
		}
		if f.size >= maxBegun || packed && f.size >= min(maxBegunPacked, z.most) {
			z.sum = z.most + 1
		}
	}
	return f, nil
}

// addPacked adds a compressed file that is in memory. An error is left to TiDB.
func (z *loadSize) addPacked(name string, parts [][]byte) {
	readers := make([]io.Reader, len(parts))
	for i, part := range parts {
		readers[i] = bytes.NewReader(part)
	}
	plain, err := rows.Unpack(name, io.MultiReader(readers...))
	if err != nil {
		return
	}
	_ = errors.Join(z.addAll(plain), plain.Close())
}

// Read implements io.Reader.
func (f *begunFile) Read(b []byte) (int, error) {
	if f.stop != nil {
		if err := f.stop(); err != nil {
			return 0, err
		}
	}
	if f.spool != nil {
		return f.spool.Read(b)
	}
	for len(f.begun) > 0 && len(f.begun[0]) == 0 {
		f.begun[0] = nil
		f.begun = f.begun[1:]
	}
	if len(f.begun) > 0 {
		n := copy(b, f.begun[0])
		f.begun[0] = f.begun[0][n:]
		f.memory.Consume(-int64(n))
		return n, nil
	}
	if f.rest == nil {
		return 0, io.EOF
	}
	return f.rest.Read(b)
}

// forget gives the memory of what was read back.
func (f *begunFile) forget() {
	for _, part := range f.begun {
		f.memory.Consume(-int64(len(part)))
	}
	f.begun = nil
}

// keep moves the file, up to its end, to a spool, unless the statement is killed before.
func (f *begunFile) keep(ctx context.Context, spool *jobs.FileSpool, killer *sqlkiller.SQLKiller) (err error) {
	defer func() {
		if err != nil {
			err = errs.Combine(err, spool.Close())
		}
	}()
	b := make([]byte, 1<<20)
	size := int64(0)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := killer.HandleSignal(); err != nil {
			return err
		}
		n, end := f.Read(b)
		if _, err := spool.Write(b[:n]); err != nil {
			return err
		}
		size += int64(n)
		if end != nil && end != io.EOF {
			return end
		}
		if end == io.EOF {
			break
		}
	}
	rest := f.rest
	f.spool, f.rest, f.size = spool, nil, size
	if rest == nil {
		return nil
	}
	return rest.Close()
}

// Close implements io.Closer. Closing twice does nothing. It reads what a client still sends, because the client reads no answer before: without that, TiDB's connection
// would read the rest as packets of the next statement.
func (f *begunFile) Close() error {
	f.forget()
	if f.spool != nil {
		return f.spool.Close()
	}
	if f.rest == nil {
		return nil
	}
	_, err := io.Copy(io.Discard, f.rest)
	err = errs.Combine(err, f.rest.Close())
	f.rest = nil
	return err
}
