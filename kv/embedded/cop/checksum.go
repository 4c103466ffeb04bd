package cop

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc64"
	"time"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/tipb/go-tipb"
)

var crcTable = crc64.MakeTable(crc64.ECMA)

// handleChecksum answers a CHECKSUM request: the exclusive or of the CRC-64 of every pair (key, then value), so that the
// checksums of parts of the data can be put together in any order.
//
// With a rewrite rule the keys must begin with the new prefix and count as if they began with the old one; that is how
// restored data is compared with its backup.
func handleChecksum(ctx context.Context, r Reader, req *coprocessor.Request) *coprocessor.Response {
	begin := time.Now()
	pb := &tipb.ChecksumRequest{}
	if err := pb.Unmarshal(req.Data); err != nil {
		return failed(fmt.Errorf("checksum request: %w", err))
	}
	if pb.Algorithm != tipb.ChecksumAlgorithm_Crc64_Xor {
		return failed(fmt.Errorf("checksum algorithm %s is not supported", pb.Algorithm))
	}
	before, after := pb.Rule.GetOldPrefix(), pb.Rule.GetNewPrefix()
	start := crc64.Update(0, crcTable, before)
	answer := &tipb.ChecksumResponse{}
	var read uint64
	err := eachPair(ctx, r, req.Ranges, func(key, value []byte) error {
		suffix, ok := bytes.CutPrefix(key, after)
		if !ok {
			return fmt.Errorf("key %x does not begin with %x", key, after)
		}
		answer.Checksum ^= crc64.Update(crc64.Update(start, crcTable, suffix), crcTable, value)
		answer.TotalKvs++
		answer.TotalBytes += uint64(len(before) + len(suffix) + len(value))
		read += uint64(len(key) + len(value))
		return nil
	})
	if err != nil {
		return failed(err)
	}
	data, err := answer.Marshal()
	if err != nil {
		return failed(fmt.Errorf("encode the answer: %w", err))
	}
	resp := &coprocessor.Response{Data: data}
	setDetails(resp, time.Since(begin), answer.TotalKvs, read)
	return resp
}

// cancelInterval is the number of pairs between checks whether a request was cancelled.
const cancelInterval = 1024

// eachPair calls fn for the pairs of the ranges in their order.
func eachPair(ctx context.Context, r Reader, pb []*coprocessor.KeyRange, fn func(key, value []byte) error) error {
	ranges, err := scanRanges(pb, false, noPoints)
	if err != nil {
		return err
	}
	n := 0
	for _, rg := range ranges {
		err := r.Scan(ctx, rg.start, rg.end, false, func(key, value []byte) (bool, error) {
			if n++; n%cancelInterval == 0 && ctx.Err() != nil {
				return false, fmt.Errorf("coprocessor request given up: %w", ctx.Err())
			}
			return true, fn(key, value)
		})
		if err != nil {
			return readError(err)
		}
	}
	return nil
}
