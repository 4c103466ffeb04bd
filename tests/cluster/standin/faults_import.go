package standin

import (
	"fmt"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// StaleCommand says that a file is not there, imported or lost.
func StaleCommand(*kvrpcpb.Context) *errorpb.Error {
	return &errorpb.Error{Message: "stale command", StaleCommand: &errorpb.StaleCommand{}}
}

// KeyNotInRegion says that a file is of another range.
func KeyNotInRegion(rc *kvrpcpb.Context) *errorpb.Error {
	return &errorpb.Error{Message: "key not in region", KeyNotInRegion: &errorpb.KeyNotInRegion{RegionId: rc.GetRegionId()}}
}

// ReadIndexNotReady says that the region is being split.
func ReadIndexNotReady(rc *kvrpcpb.Context) *errorpb.Error {
	return &errorpb.Error{Message: "read index not ready", ReadIndexNotReady: &errorpb.ReadIndexNotReady{RegionId: rc.GetRegionId()}}
}

// ProposalInMergingMode says that the region is being merged.
func ProposalInMergingMode(rc *kvrpcpb.Context) *errorpb.Error {
	return &errorpb.Error{Message: "merging", ProposalInMergingMode: &errorpb.ProposalInMergingMode{RegionId: rc.GetRegionId()}}
}

// ProposalDropped is an error without a type.
func ProposalDropped(*kvrpcpb.Context) *errorpb.Error {
	return &errorpb.Error{Message: "raft: proposal dropped"}
}

// DiskFull says that the store takes no more data.
func DiskFull(*kvrpcpb.Context) *errorpb.Error {
	return &errorpb.Error{Message: "disk full", DiskFull: &errorpb.DiskFull{StoreId: []uint64{1}}}
}

// writeStatus is what TiKV ends the stream of a file with where it answers other requests with an
// error that has a type: the text of its own error.
func writeStatus(e *errorpb.Error) error {
	kind := "RequestTooOld" // the region is not what it was
	switch {
	case e.ServerIsBusy != nil:
		kind = "ResourceNotEnough"
	case e.DiskFull != nil:
		return status.Error(codes.Unknown, "DiskSpaceNotEnough")
	case e.ReadIndexNotReady != nil, e.ProposalInMergingMode != nil:
		kind = "RequestTooNew"
	}
	return status.Error(codes.Unknown, fmt.Sprintf("%s(%q)", kind, e.Message))
}

// faultyFile is a stream that sends a file, and goes wrong somewhere.
type faultyFile struct {
	grpc.ServerStream
	fault    *Fault
	received int
	happened bool
	end      error // what the stream ends with, if that has happened
}

// RecvMsg implements grpc.ServerStream: the fault happens after some messages, or at the
// end if there are not so many.
func (s *faultyFile) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if s.happened || s.fault.Late || (err == nil && s.received < s.fault.After) {
		s.received++
		return err
	}
	s.happen()
	if s.end != nil {
		return s.end
	}
	return err
}

// SendMsg implements grpc.ServerStream: what the service answers is lost if the fault has
// answered, or the connection is broken.
func (s *faultyFile) SendMsg(m any) error {
	if s.fault.Late && !s.happened {
		s.happen()
	}
	if s.end != nil {
		return s.end
	}
	return s.ServerStream.SendMsg(m)
}

func (s *faultyFile) happen() {
	s.happened = true
	if s.fault.Before != nil {
		s.fault.Before()
	}
	switch {
	case pause(s.Context(), s.fault.Delay) != nil, s.fault.Break:
		s.end = errBroken
	case s.fault.Region != nil:
		s.end = writeStatus(s.fault.Region(nil))
	}
}
