package standin

import (
	"path"
	"reflect"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/import_sstpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
)

// Requests and their answers have the same name in the batch's union, and all answers
// to requests for a region have a field RegionError: one code makes it of any of them.

// methodName is the last part of a gRPC method.
func methodName(full string) string { return path.Base(full) }

// commandOf returns the name of a batched request, and its message.
func commandOf(req *tikvpb.BatchCommandsRequest_Request) (name string, message any) {
	if req.Cmd == nil {
		return "", nil
	}
	union := reflect.ValueOf(req.Cmd).Elem()
	return union.Type().Field(0).Name, union.Field(0).Interface()
}

// contextOf is where a request is routed to, nil for requests without.
func contextOf(message any) *kvrpcpb.Context {
	if m, ok := message.(interface{ GetContext() *kvrpcpb.Context }); ok {
		return m.GetContext()
	}
	return nil
}

// batchedRegionError is the answer to a batched request with a region error, nil if its
// answers have none.
func batchedRegionError(command string, regionErr *errorpb.Error) *tikvpb.BatchCommandsResponse_Response {
	resp := &tikvpb.BatchCommandsResponse_Response{}
	for _, w := range resp.XXX_OneofWrappers() {
		t := reflect.TypeOf(w).Elem()
		if t.Field(0).Name != command {
			continue
		}
		answer := withRegionError(t.Field(0).Type, regionErr)
		if answer == nil {
			return nil
		}
		union := reflect.New(t)
		union.Elem().Field(0).Set(reflect.ValueOf(answer))
		reflect.ValueOf(resp).Elem().FieldByName("Cmd").Set(union)
		return resp
	}
	return nil
}

// regionErrorOf is the answer of a method of TiKV with a region error, nil if its answers
// have none.
func regionErrorOf(method string, regionErr *errorpb.Error) any {
	if method == "Ingest" || method == "MultiIngest" {
		return &import_sstpb.IngestResponse{Error: regionErr}
	}
	m, ok := reflect.TypeFor[tikvpb.TikvServer]().MethodByName(method)
	if !ok || m.Type.NumOut() != 2 {
		return nil
	}
	return withRegionError(m.Type.Out(0), regionErr)
}

// withRegionError makes an answer of type t, a pointer to a message.
func withRegionError(t reflect.Type, regionErr *errorpb.Error) any {
	answer := reflect.New(t.Elem())
	field := answer.Elem().FieldByName("RegionError")
	if !field.IsValid() {
		return nil
	}
	field.Set(reflect.ValueOf(regionErr))
	return answer.Interface()
}
