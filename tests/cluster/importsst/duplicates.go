package importsst

import (
	"context"
	"fmt"
	"time"

	"github.com/pingcap/kvproto/pkg/import_sstpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/tikvrpc"

	"fastddl/kv"
)

// versionsTimeout bounds the request for the versions of one key, which is answered in
// this process.
const versionsTimeout = time.Minute

// DuplicateDetect implements import_sstpb.ImportSSTServer: it sends the versions of keys
// that are alive and have several above the given timestamp.
func (s *Server) DuplicateDetect(req *import_sstpb.DuplicateDetectRequest, stream import_sstpb.ImportSST_DuplicateDetectServer) error {
	ctx := stream.Context()
	if _, regionErr := s.route(ctx, req.Context); regionErr != nil {
		return stream.Send(&import_sstpb.DuplicateDetectResponse{RegionError: regionErr})
	}
	pairs, err := s.duplicates(ctx, req)
	if err != nil {
		return stream.Send(&import_sstpb.DuplicateDetectResponse{KeyError: &import_sstpb.Error{Message: err.Error()}})
	}
	if len(pairs) == 0 {
		return nil
	}
	return stream.Send(&import_sstpb.DuplicateDetectResponse{Pairs: pairs})
}

// duplicates returns the versions in key order, newest first.
func (s *Server) duplicates(ctx context.Context, req *import_sstpb.DuplicateDetectRequest) (found []*import_sstpb.KvPair, err error) {
	ts, err := s.data.CurrentTS(ctx)
	if err != nil {
		return nil, err
	}
	snapshot, err := s.data.Snapshot(ctx, ts)
	if err != nil {
		return nil, err
	}
	defer func() { _ = snapshot.Close() }() // nothing was written
	it, err := snapshot.Iter(kv.KeyRange{Start: req.StartKey, End: req.EndKey})
	if err != nil {
		return nil, err
	}
	defer func() { _ = it.Close() }()
	for it.Valid() {
		versions, err := s.versions(ctx, it.Key())
		if err != nil {
			return nil, err
		}
		var above []*import_sstpb.KvPair
		for _, w := range versions {
			if w.CommitTs <= req.MinCommitTs || w.Type != kvrpcpb.Op_Put {
				continue
			}
			pair := &import_sstpb.KvPair{Key: append([]byte(nil), it.Key()...), CommitTs: w.CommitTs}
			if !req.KeyOnly {
				pair.Value = w.ShortValue
			}
			above = append(above, pair)
		}
		if len(above) > 1 {
			found = append(found, above...)
		}
		if err := it.Next(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// versions returns all versions of a key.
func (s *Server) versions(ctx context.Context, key []byte) ([]*kvrpcpb.MvccWrite, error) {
	req := tikvrpc.NewRequest(tikvrpc.CmdMvccGetByKey, &kvrpcpb.MvccGetByKeyRequest{Key: key})
	resp, err := s.client.SendRequest(ctx, "", req, versionsTimeout)
	if err != nil {
		return nil, err
	}
	answer, ok := resp.Resp.(*kvrpcpb.MvccGetByKeyResponse)
	if !ok || answer.Error != "" || answer.RegionError != nil {
		return nil, fmt.Errorf("versions of %x: %v", key, resp.Resp)
	}
	return answer.GetInfo().GetWrites(), nil
}
