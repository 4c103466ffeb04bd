package tikv

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/store/copr"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tipb/go-tipb"

	"fastddl/kv"
)

// lastKey is after every key of TiDB's. Requests to the coprocessor name their end.
var lastKey = bytes.Repeat([]byte{0xff}, 32)

// copRequest is a request of type tp over ranges, which are in order.
func copRequest(ctx context.Context, tp int64, data []byte, ts uint64, ranges ...kv.KeyRange) *tidbkv.Request {
	keys := make([]tidbkv.KeyRange, 0, len(ranges))
	for _, r := range ranges {
		if r.End == nil {
			r.End = lastKey
		}
		if tp == tidbkv.ReqTypeChecksum { // no range is a point to it (src/coprocessor/checksum.rs)
			keys = append(keys, tidbkv.KeyRange{StartKey: r.Start, EndKey: r.End})
			continue
		}
		keys = append(keys, noPoints(r)...)
	}
	return &tidbkv.Request{
		Tp:                tp,
		StartTs:           ts,
		Data:              data,
		KeyRanges:         tidbkv.NewNonPartitionedKeyRanges(keys),
		Concurrency:       1, // the caller has as many workers as it should
		KeepOrder:         true,
		IsolationLevel:    tidbkv.SI,
		Priority:          tidbkv.PriorityLow,
		NotFillCache:      true,
		RequestSource:     requestSource,
		ResourceGroupName: resourceGroup(ctx),
	}
}

// noPoints cuts a range that ends where all keys with the prefix of its start end. TiKV
// takes such a one for the single key of its start, where handles are integers; and so are
// all records of a table. It keeps the zeros that a carry leaves (is_prefix_next in
// components/tidb_query_common/src/util.rs), so only the ends are compared that are not zeros.
func noPoints(r kv.KeyRange) []tidbkv.KeyRange {
	if !bytes.Equal(bytes.TrimRight(r.End, "\x00"), bytes.TrimRight(kv.PrefixNext(r.Start), "\x00")) {
		return []tidbkv.KeyRange{{StartKey: r.Start, EndKey: r.End}}
	}
	next := kv.NextKey(r.Start)
	return []tidbkv.KeyRange{{StartKey: r.Start, EndKey: next}, {StartKey: next, EndKey: r.End}}
}

// send sends a request by TiDB's client, which divides it among the regions.
func (s *Store) send(ctx context.Context, req *tidbkv.Request) tidbkv.Response {
	option := &tidbkv.ClientSendOption{EnableCollectExecutionInfo: req.Tp == tidbkv.ReqTypeChecksum}
	option.TryCopLiteWorker = newLike(option.TryCopLiteWorker) // allows it
	return s.cluster.GetClient().Send(ctx, req, s.vars, option)
}

// newLike makes a value of a type that this module does not name.
func newLike[T any](*T) *T { return new(T) }

// answers sends a request and hands out the answer of each region.
func (s *Store) answers(ctx context.Context, req *tidbkv.Request, fn func(part tidbkv.ResultSubset) error) (err error) {
	resp := s.send(ctx, req)
	defer func() {
		if closeErr := resp.Close(); err == nil {
			err = closeErr
		}
	}()
	for {
		part, err := resp.Next(ctx)
		if err != nil || part == nil {
			return err
		}
		if err := fn(part); err != nil {
			return err
		}
	}
}

// selected decodes the answer to a DAG request.
func selected(data []byte) (*tipb.SelectResponse, error) {
	var resp tipb.SelectResponse
	if err := resp.Unmarshal(data); err != nil {
		return nil, fmt.Errorf("answer of the coprocessor: %w", err)
	}
	if e := resp.Error; e != nil {
		return nil, fmt.Errorf("the coprocessor failed: %s (%d)", e.GetMsg(), e.GetCode())
	}
	return &resp, nil
}

// dagOf makes a request of executors, whose first n columns are wanted, in UTC.
func dagOf(n int, executors ...*tipb.Executor) ([]byte, error) {
	dag := &tipb.DAGRequest{TimeZoneName: "UTC", Executors: executors, EncodeType: tipb.EncodeType_TypeChunk}
	for i := range n {
		dag.OutputOffsets = append(dag.OutputOffsets, uint32(i))
	}
	endian := tipb.Endian_BigEndian
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		endian = tipb.Endian_LittleEndian
	}
	dag.ChunkMemoryLayout = &tipb.ChunkMemoryLayout{Endian: endian}
	return dag.Marshal()
}

// countDAG counts rows by their keys.
func countDAG(tableID int64) ([]byte, error) {
	return dagOf(1,
		// Without any other column TiKV does not look at values.
		&tipb.Executor{Tp: tipb.ExecType_TypeTableScan, TblScan: &tipb.TableScan{
			TableId: tableID, Columns: []*tipb.ColumnInfo{hiddenHandle()},
		}},
		countExecutor())
}

// countExecutor counts the rows of the executor below it.
func countExecutor() *tipb.Executor {
	longlong := &tipb.FieldType{Tp: int32(mysql.TypeLonglong), Flag: uint32(mysql.NotNullFlag), Flen: mysql.MaxIntWidth}
	one := &tipb.Expr{Tp: tipb.ExprType_Int64, Val: codec.EncodeInt(nil, 1), FieldType: longlong}
	return &tipb.Executor{Tp: tipb.ExecType_TypeAggregation, Aggregation: &tipb.Aggregation{
		AggFunc: []*tipb.Expr{{Tp: tipb.ExprType_Count, Children: []*tipb.Expr{one}, FieldType: longlong}},
	}}
}

// count returns the number of keys that a snapshot at ts has in r.
func (s *Store) count(ctx context.Context, r kv.KeyRange, ts uint64) (n int64, err error) {
	if r.Empty() {
		return 0, ctx.Err()
	}
	if !isRecords(r) {
		sum, err := s.checksum(ctx, r, ts)
		return sum.Pairs, err
	}
	data, err := countDAG(tablecodec.DecodeTableID(r.Start))
	if err != nil {
		return 0, err
	}
	err = s.answers(ctx, copRequest(ctx, tidbkv.ReqTypeDAG, data, ts, r), func(answer tidbkv.ResultSubset) error {
		part, err := countOf(answer.GetData())
		n += part
		return err
	})
	return n, failed(ctx, fmt.Sprintf("count %s", r), err)
}

// countOf is the count in the answer of a region.
func countOf(data []byte) (n int64, err error) {
	resp, err := selected(data)
	if err != nil {
		return 0, err
	}
	d := newPageDecoder(countFields)
	chunks, err := d.decode(resp)
	if err != nil {
		return 0, err
	}
	for _, c := range chunks {
		for _, part := range c.Column(0).Int64s() {
			n += part
		}
	}
	return n, nil
}

// recordPrefixLen is the length of t{tableID}_r, which the records of a table begin with.
const recordPrefixLen = 1 + 8 + 2

// isRecords reports whether r holds nothing but records of one table.
func isRecords(r kv.KeyRange) bool {
	if len(r.Start) < recordPrefixLen || len(r.End) < recordPrefixLen || r.Start[0] != tablecodec.TablePrefix()[0] {
		return false
	}
	prefix := r.Start[:recordPrefixLen]
	return bytes.Equal(prefix, tablecodec.GenTableRecordPrefix(tablecodec.DecodeTableID(prefix))) &&
		(bytes.HasPrefix(r.End, prefix) || bytes.Equal(r.End, kv.PrefixNext(prefix)))
}

// Checksum implements kv.Checksummer.
func (s *Store) Checksum(ctx context.Context, r kv.KeyRange, ts uint64) (kv.Checksum, error) {
	if err := s.enter(ctx); err != nil {
		return kv.Checksum{}, err
	}
	defer s.exit()
	if err := s.readable(ctx, ts); err != nil {
		return kv.Checksum{}, err
	}
	return s.checksum(ctx, r, ts)
}

func (s *Store) checksum(ctx context.Context, r kv.KeyRange, ts uint64) (sum kv.Checksum, err error) {
	if r.Empty() {
		return sum, ctx.Err()
	}
	req := &tipb.ChecksumRequest{ScanOn: tipb.ChecksumScanOn_Index, Algorithm: tipb.ChecksumAlgorithm_Crc64_Xor}
	if keyspace := s.cluster.GetCodec().GetKeyspace(); len(keyspace) > 0 {
		// Otherwise TiKV includes the keyspace's prefix of each key in the sum.
		req.Rule = &tipb.ChecksumRewriteRule{NewPrefix: keyspace}
	}
	data, err := req.Marshal()
	if err != nil {
		return sum, err
	}
	err = s.answers(ctx, copRequest(ctx, tidbkv.ReqTypeChecksum, data, ts, r), func(answer tidbkv.ResultSubset) error {
		var part tipb.ChecksumResponse
		if err := part.Unmarshal(answer.GetData()); err != nil {
			return fmt.Errorf("answer of the coprocessor: %w", err)
		}
		pairs := int64(part.TotalKvs)
		sum.Add(kv.Checksum{Pairs: pairs, Bytes: int64(part.TotalBytes), CRC: part.Checksum, Records: recordsOf(answer, pairs)})
		return nil
	})
	return sum, failed(ctx, fmt.Sprintf("checksum %s", r), err)
}

// recordsOf is how many records TiKV has met to find so many pairs in one range: more than these if it
// does not say so. What it calls versions are the steps of its cursor: one to the first record of the range, then one from
// each record to the next, or a seek over several of them, at least two for a key that has more than one
// (move_write_cursor_to_next_user_key in src/storage/mvcc/reader/scanner/forward.rs).
func recordsOf(answer tidbkv.ResultSubset, pairs int64) int64 {
	if detailed, ok := answer.(interface{ GetCopRuntimeStats() *copr.CopRuntimeStats }); ok {
		if stats := detailed.GetCopRuntimeStats(); stats != nil && stats.ScanDetail.ProcessedKeys == pairs && stats.ScanDetail.TotalKeys > pairs {
			return stats.ScanDetail.TotalKeys - 1
		}
	}
	return pairs + 1
}
