package rows

import (
	"bytes"
	"context"
	"errors"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/lightning/common"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
)

// pairBuffer takes what TiDB's tables write for a row. It is the transaction of a row, and has only what AddRecord
// without a check of duplicates calls; a call of anything else panics, which a reader contains.
type pairBuffer struct {
	tkv.Transaction
	memory pairMemory
}

type pairMemory struct {
	tkv.MemBuffer
	pairs []common.KvPair
	bytes []byte
	// multi are the multi-valued indexes: their keys may come more than once in a row.
	multi map[int64]*model.IndexInfo
	name  string // of the table
	// again is the error of a unique index that has a value of the row twice, as INSERT returns it.
	again error
}

// keptBytes is how much memory a buffer keeps for the next row.
const keptBytes = 1 << 20

var errOnlySets = errors.New("load: a row can only add pairs")

// reset forgets the pairs of the last row. Their bytes are used again.
func (b *pairBuffer) reset() {
	m := &b.memory
	m.pairs, m.bytes, m.again = m.pairs[:0], m.bytes[:0], nil
	if cap(m.bytes) > keptBytes {
		m.bytes = nil
	}
}

// follow makes the buffer look for keys that come twice, if the table has indexes with such keys.
func (m *pairMemory) follow(info *model.TableInfo) {
	m.name = info.Name.String()
	for _, idx := range info.Indices {
		if idx.MVIndex {
			if m.multi == nil {
				m.multi = make(map[int64]*model.IndexInfo)
			}
			m.multi[idx.ID] = idx
		}
	}
}

func (b *pairBuffer) pairs() []common.KvPair { return b.memory.pairs }

// GetMemBuffer implements tkv.Transaction.
func (b *pairBuffer) GetMemBuffer() tkv.MemBuffer { return &b.memory }

// SetAssertion implements tkv.Transaction.
func (*pairBuffer) SetAssertion([]byte, ...tkv.FlagsOp) error { return nil }

// CacheTableInfo implements tkv.Transaction.
func (*pairBuffer) CacheTableInfo(int64, *model.TableInfo) {}

// IsPipelined implements tkv.Transaction.
func (*pairBuffer) IsPipelined() bool { return false }

// IsPessimistic implements tkv.Transaction.
func (*pairBuffer) IsPessimistic() bool { return false }

// Size implements tkv.Transaction.
func (b *pairBuffer) Size() int { return len(b.memory.bytes) }

// MayFlush implements tkv.Transaction.
func (*pairBuffer) MayFlush() error { return nil }

// Set implements tkv.MemBuffer.
func (m *pairMemory) Set(k tkv.Key, v []byte) error {
	if m.multi != nil && m.set(k, v) {
		return nil
	}
	m.pairs = append(m.pairs, common.KvPair{Key: m.keep(k), Val: m.keep(v)})
	return nil
}

// keep copies b. If the memory moves, what was kept before stays where it is.
func (m *pairMemory) keep(b []byte) []byte {
	if len(m.bytes)+len(b) > cap(m.bytes) {
		m.bytes = make([]byte, 0, max(2*cap(m.bytes), len(b), 4096))
	}
	at := len(m.bytes)
	m.bytes = append(m.bytes, b...)
	return m.bytes[at:len(m.bytes):len(m.bytes)]
}

// set replaces the value of a key of a multi-valued index that the row has already. TiDB makes one entry of
// elements that are equal, and takes some for different that have one key, such as 0 and -0.0.
func (m *pairMemory) set(k tkv.Key, v []byte) (replaced bool) {
	if tablecodec.IsRecordKey(k) {
		return false
	}
	id, err := tablecodec.DecodeIndexID(k)
	if err != nil || m.multi[id] == nil {
		return false
	}
	for i := range m.pairs {
		if !bytes.Equal(m.pairs[i].Key, k) {
			continue
		}
		idx := m.multi[id]
		// An entry of a unique index without NULLs has no handle in its key: INSERT finds the first one.
		if _, _, values, err := tablecodec.DecodeIndexKey(k); idx.Unique && err == nil && len(values) == len(idx.Columns) {
			m.again = tkv.GenKeyExistsErr(values, m.name+"."+idx.Name.String())
		}
		m.pairs[i].Val = m.keep(v)
		return true
	}
	return false
}

// SetWithFlags implements tkv.MemBuffer.
func (m *pairMemory) SetWithFlags(k tkv.Key, v []byte, _ ...tkv.FlagsOp) error { return m.Set(k, v) }

// Delete implements tkv.MemBuffer.
func (*pairMemory) Delete(tkv.Key) error { return errOnlySets }

// Get implements tkv.MemBuffer.
func (*pairMemory) Get(context.Context, tkv.Key) ([]byte, error) { return nil, tkv.ErrNotExist }

// GetLocal implements tkv.MemBuffer.
func (*pairMemory) GetLocal(context.Context, []byte) ([]byte, error) { return nil, tkv.ErrNotExist }

// Staging implements tkv.MemBuffer.
func (*pairMemory) Staging() tkv.StagingHandle { return 0 }

// Release implements tkv.MemBuffer.
func (*pairMemory) Release(tkv.StagingHandle) {}

// Cleanup implements tkv.MemBuffer.
func (*pairMemory) Cleanup(tkv.StagingHandle) {}
