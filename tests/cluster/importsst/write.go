package importsst

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/import_sstpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/tikv/client-go/v2/util/codec"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fastddl/kv"
)

const (
	// importDir is the folder of files, in the store's memory.
	importDir = "importsst"
	// uuidBytes is the length of a file's name.
	uuidBytes = 16
	// writeCF is the column family of entries and short values, valuesCF that of values of more
	// than shortBytes.
	writeCF, valuesCF = "write", "default"
	shortBytes        = 255
)

// Write implements import_sstpb.ImportSSTServer. What is wrong with the data ends the stream with
// a status of no kind, whose text is TiKV's error as its debugger prints it.
func (s *Server) Write(stream import_sstpb.ImportSST_WriteServer) error {
	ctx := stream.Context()
	files, err := s.receive(ctx, stream)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return status.Error(codes.Unknown, err.Error())
	}
	resp := &import_sstpb.WriteResponse{}
	s.mu.Lock()
	for _, f := range files {
		resp.Metas = append(resp.Metas, f.meta)
		s.files[nameOf(f.meta)] = f
	}
	s.mu.Unlock()
	return stream.SendAndClose(resp)
}

// wrong is an error of TiKV's with a text.
func wrong(kind, format string, args ...any) error {
	return fmt.Errorf("%s(%q)", kind, fmt.Sprintf(format, args...))
}

// receive reads the files of a stream: none if it has no pairs, one, or that of long values and
// that of entries.
func (s *Server) receive(ctx context.Context, stream import_sstpb.ImportSST_WriteServer) ([]*file, error) {
	first, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	meta := first.GetMeta()
	if err := s.checkMeta(ctx, meta); err != nil {
		return nil, err
	}
	w := newFileWriter(s.data, meta)
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			err = w.finish(ctx)
			if err == nil {
				return w.files(), nil
			}
		}
		if err == nil {
			err = w.add(ctx, req.GetBatch())
		}
		if err != nil {
			return nil, errors.Join(err, w.abort())
		}
	}
}

// checkMeta checks what a file says of itself before its data.
func (s *Server) checkMeta(ctx context.Context, meta *import_sstpb.SSTMeta) error {
	switch {
	case meta == nil:
		return errors.New("InvalidChunk")
	case len(meta.Uuid) != uuidBytes:
		return wrong("BadFormat", "the UUID has %d bytes", len(meta.Uuid))
	case s.exists(meta.Uuid):
		return wrong("FileExists", "%x", meta.Uuid)
	}
	r, err := s.pd.GetRegionByID(ctx, meta.RegionId)
	if err != nil {
		return err
	}
	if r == nil {
		return wrong("RequestTooOld", "region %d is not found, please rescan region later", meta.RegionId)
	}
	return checkEpoch(r.Meta, meta.RegionEpoch)
}

// exists says whether there is a file that is not imported yet.
func (s *Server) exists(uuid []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[string(uuid)+writeCF] != nil
}

// checkEpoch compares the epoch that a client knows with that of the region.
func checkEpoch(r *metapb.Region, epoch *metapb.RegionEpoch) error {
	local := r.RegionEpoch
	switch {
	case sameEpoch(local, epoch):
		return nil
	case local.Version < epoch.GetVersion() || local.ConfVer < epoch.GetConfVer():
		return wrong("RequestTooNew", "request region %d is ahead of local region, local epoch %s, request epoch %s, please retry write later",
			r.Id, local, epoch)
	}
	return wrong("RequestTooOld", "request region %d is staler than local region, local epoch %s, request epoch %s, please rescan region later",
		r.Id, local, epoch)
}

// fileWriter writes the units of a file: one for each run of one commit timestamp. Long values, which TiKV has in
// a file of their own, are in the units.
type fileWriter struct {
	data    kv.Store
	file    *file
	long    bool // there are long values
	current kv.ImportWriter
	version uint64
	last    []byte
}

func newFileWriter(data kv.Store, meta *import_sstpb.SSTMeta) *fileWriter {
	return &fileWriter{data: data, file: &file{meta: ofFamily(meta, writeCF)}}
}

// ofFamily is what TiKV answers of a file: the metadata that it was sent, and the column family. There are no counts.
func ofFamily(meta *import_sstpb.SSTMeta, family string) *import_sstpb.SSTMeta {
	answered := *meta
	answered.CfName = family
	return &answered
}

// files returns what was written.
func (w *fileWriter) files() []*file {
	var files []*file
	if w.long {
		files = append(files, &file{meta: ofFamily(w.file.meta, valuesCF)})
	}
	if len(w.file.units) > 0 {
		files = append(files, w.file)
	}
	return files
}

// add writes a batch.
func (w *fileWriter) add(ctx context.Context, batch *import_sstpb.WriteBatch) error {
	if batch == nil {
		return errors.New("InvalidChunk")
	}
	if batch.CommitTs == 0 {
		return wrong("BadFormat", "the commit timestamp is 0")
	}
	for _, pair := range batch.Pairs {
		if err := w.check(pair); err != nil {
			return err
		}
		if w.current == nil || w.version != batch.CommitTs {
			if err := w.next(ctx, batch.CommitTs); err != nil {
				return err
			}
		}
		if err := w.current.Add(pair.Key, pair.Value); err != nil {
			return err
		}
		w.long = w.long || len(pair.Value) > shortBytes
	}
	return nil
}

// check checks a pair against the file's range and the pair before.
func (w *fileWriter) check(pair *import_sstpb.Pair) error {
	if pair.Op != import_sstpb.Pair_Put {
		return fmt.Errorf("operation %s is not supported", pair.Op)
	}
	if w.last != nil && bytes.Compare(pair.Key, w.last) <= 0 {
		return fmt.Errorf("keys must be added in strict ascending order: %x after %x", pair.Key, w.last)
	}
	w.last = append(w.last[:0], pair.Key...)
	encoded := codec.EncodeBytes(nil, pair.Key)
	r := w.file.meta.Range
	if bytes.Compare(encoded, r.GetStart()) < 0 || bytes.Compare(encoded, r.GetEnd()) > 0 {
		return fmt.Errorf("key %x is not in the file's range %x to %x", pair.Key, r.GetStart(), r.GetEnd())
	}
	return nil
}

// next begins a unit at another version.
func (w *fileWriter) next(ctx context.Context, version uint64) error {
	if err := w.finish(ctx); err != nil {
		return err
	}
	var err error
	w.version = version
	w.current, err = w.data.NewImportWriter(ctx, kv.ImportOptions{Dir: importDir, Version: version})
	return err
}

// finish ends the unit that is being written, if any.
func (w *fileWriter) finish(ctx context.Context) error {
	if w.current == nil {
		return nil
	}
	unit, err := w.current.Finish(ctx)
	w.current = nil
	if err != nil {
		return err
	}
	w.file.units = append(w.file.units, unit)
	return nil
}

// abort drops what was written.
func (w *fileWriter) abort() error {
	var errs []error
	if w.current != nil {
		errs = append(errs, w.current.Abort())
	}
	for _, u := range w.file.units {
		errs = append(errs, u.Discard())
	}
	return errors.Join(errs...)
}

// belongs checks that the file is one of the region as it is.
func (f *file) belongs(region *metapb.Region) *errorpb.Error {
	if f.meta.RegionId != region.Id {
		return &errorpb.Error{Message: fmt.Sprintf("the file is of region %d, not %d", f.meta.RegionId, region.Id)}
	}
	if !sameEpoch(f.meta.RegionEpoch, region.RegionEpoch) {
		return epochNotMatch(region)
	}
	for _, key := range [][]byte{f.meta.Range.GetStart(), f.meta.Range.GetEnd()} {
		if bytes.Compare(key, region.StartKey) < 0 || len(region.EndKey) > 0 && bytes.Compare(key, region.EndKey) >= 0 {
			return &errorpb.Error{
				Message: fmt.Sprintf("key %x is not in region %d", key, region.Id),
				KeyNotInRegion: &errorpb.KeyNotInRegion{
					Key: key, RegionId: region.Id, StartKey: region.StartKey, EndKey: region.EndKey,
				},
			}
		}
	}
	return nil
}
