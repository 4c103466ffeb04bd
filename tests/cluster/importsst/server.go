package importsst

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/import_sstpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/tikv/client-go/v2/tikv"
	pd "github.com/tikv/pd/client"

	"fastddl/kv"
	"fastddl/kv/embedded"
)

// Server implements import_sstpb.ImportSSTServer.
type Server struct {
	import_sstpb.UnimplementedImportSSTServer
	data   kv.Store
	pd     pd.Client
	client tikv.Client

	// applying is the import that changes the store.
	applying sync.Mutex

	mu        sync.Mutex
	files     map[string]*file // by what nameOf says
	ingesting map[string]bool  // those that are being imported
	mode      import_sstpb.SwitchMode
	suspended time.Time // until then imports are refused
	imported  int
}

// file is what was written and is to be imported. That of long values has no units: they come
// with the entries.
type file struct {
	meta  *import_sstpb.SSTMeta
	units []kv.ImportUnit
}

// nameOf is what a file has for itself: those of one stream have one UUID.
func nameOf(meta *import_sstpb.SSTMeta) string { return string(meta.Uuid) + meta.CfName }

// New returns a service that imports into a store.
func New(store *embedded.Store) *Server {
	return &Server{data: store.Builds(), pd: store.PDClient(), client: store.Client(), files: make(map[string]*file), ingesting: make(map[string]bool)}
}

// Imported is the number of files that were imported.
func (s *Server) Imported() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.imported
}

// SwitchMode implements import_sstpb.ImportSSTServer. The modes differ in nothing.
func (s *Server) SwitchMode(_ context.Context, req *import_sstpb.SwitchModeRequest) (*import_sstpb.SwitchModeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = req.Mode
	return &import_sstpb.SwitchModeResponse{}, nil
}

// GetMode implements import_sstpb.ImportSSTServer.
func (s *Server) GetMode(context.Context, *import_sstpb.GetModeRequest) (*import_sstpb.GetModeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &import_sstpb.GetModeResponse{Mode: s.mode}, nil
}

// AddForcePartitionRange implements import_sstpb.ImportSSTServer: files are cut as they are.
func (s *Server) AddForcePartitionRange(context.Context, *import_sstpb.AddPartitionRangeRequest) (*import_sstpb.AddPartitionRangeResponse, error) {
	return &import_sstpb.AddPartitionRangeResponse{}, nil
}

// RemoveForcePartitionRange implements import_sstpb.ImportSSTServer.
func (s *Server) RemoveForcePartitionRange(context.Context, *import_sstpb.RemovePartitionRangeRequest) (
	*import_sstpb.RemovePartitionRangeResponse, error) {
	return &import_sstpb.RemovePartitionRangeResponse{}, nil
}

// SuspendImportRPC implements import_sstpb.ImportSSTServer.
func (s *Server) SuspendImportRPC(_ context.Context, req *import_sstpb.SuspendImportRPCRequest) (*import_sstpb.SuspendImportRPCResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	already := time.Now().Before(s.suspended)
	s.suspended = time.Time{}
	if req.ShouldSuspendImports {
		s.suspended = time.Now().Add(time.Duration(req.DurationInSecs) * time.Second)
	}
	return &import_sstpb.SuspendImportRPCResponse{AlreadySuspended: already}, nil
}

// Ingest implements import_sstpb.ImportSSTServer.
func (s *Server) Ingest(ctx context.Context, req *import_sstpb.IngestRequest) (*import_sstpb.IngestResponse, error) {
	return s.MultiIngest(ctx, &import_sstpb.MultiIngestRequest{Context: req.Context, Ssts: []*import_sstpb.SSTMeta{req.Sst}})
}

// MultiIngest implements import_sstpb.ImportSSTServer. Without files it says whether there
// is anything in the way. Files that are being imported at the moment are refused.
func (s *Server) MultiIngest(ctx context.Context, req *import_sstpb.MultiIngestRequest) (*import_sstpb.IngestResponse, error) {
	if err := s.beginIngest(req.Ssts); err != nil {
		return refused(err), nil
	}
	defer s.endIngest(req.Ssts)
	if len(req.Ssts) == 0 {
		return &import_sstpb.IngestResponse{}, nil
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	region, regionErr := s.route(ctx, req.Context)
	if regionErr != nil {
		return refused(regionErr), nil
	}
	units, regionErr := s.unitsOf(region, req.Ssts)
	if regionErr != nil {
		return refused(regionErr), nil
	}
	if err := s.data.Import(ctx, units); err != nil {
		return refused(&errorpb.Error{Message: err.Error()}), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, meta := range req.Ssts {
		delete(s.files, nameOf(meta))
	}
	s.imported += len(req.Ssts)
	return &import_sstpb.IngestResponse{}, nil
}

// beginIngest marks files as being imported. It fails while imports are suspended, or another request imports one of them.
func (s *Server) beginIngest(metas []*import_sstpb.SSTMeta) *errorpb.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := time.Until(s.suspended); left > 0 {
		return &errorpb.Error{Message: "imports are suspended", ServerIsBusy: &errorpb.ServerIsBusy{
			Reason: "imports are suspended", BackoffMs: uint64(left.Milliseconds()) + 1,
		}}
	}
	for _, meta := range metas {
		if s.ingesting[nameOf(meta)] {
			return &errorpb.Error{Message: "ingest file conflict"}
		}
	}
	for _, meta := range metas {
		s.ingesting[nameOf(meta)] = true
	}
	return nil
}

// endIngest ends the import of files.
func (s *Server) endIngest(metas []*import_sstpb.SSTMeta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, meta := range metas {
		delete(s.ingesting, nameOf(meta))
	}
}

// unitsOf returns what files of a region hold.
func (s *Server) unitsOf(region *metapb.Region, metas []*import_sstpb.SSTMeta) (units []kv.ImportUnit, _ *errorpb.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, meta := range metas {
		f := s.files[nameOf(meta)]
		if f == nil {
			return nil, &errorpb.Error{
				Message: fmt.Sprintf("the file %x does not exist", meta.Uuid), StaleCommand: &errorpb.StaleCommand{},
			}
		}
		if regionErr := f.belongs(region); regionErr != nil {
			return nil, regionErr
		}
		units = append(units, f.units...)
	}
	return units, nil
}

func refused(err *errorpb.Error) *import_sstpb.IngestResponse {
	return &import_sstpb.IngestResponse{Error: err}
}

// route returns the region that a request names, as it is.
func (s *Server) route(ctx context.Context, rc *kvrpcpb.Context) (*metapb.Region, *errorpb.Error) {
	r, err := s.pd.GetRegionByID(ctx, rc.GetRegionId())
	if err != nil {
		return nil, &errorpb.Error{Message: err.Error()}
	}
	if r == nil {
		return nil, &errorpb.Error{
			Message:        fmt.Sprintf("region %d not found", rc.GetRegionId()),
			RegionNotFound: &errorpb.RegionNotFound{RegionId: rc.GetRegionId()},
		}
	}
	if sameEpoch(r.Meta.RegionEpoch, rc.GetRegionEpoch()) {
		return r.Meta, nil
	}
	return nil, epochNotMatch(r.Meta)
}

func sameEpoch(a, b *metapb.RegionEpoch) bool {
	return a.GetVersion() == b.GetVersion() && a.GetConfVer() == b.GetConfVer()
}

func epochNotMatch(current *metapb.Region) *errorpb.Error {
	return &errorpb.Error{
		Message:       fmt.Sprintf("region %d has epoch %s", current.Id, current.RegionEpoch),
		EpochNotMatch: &errorpb.EpochNotMatch{CurrentRegions: []*metapb.Region{current}},
	}
}
