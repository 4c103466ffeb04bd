package standin

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/import_sstpb"
	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tipb/go-tipb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// keyspace stands between clients of a keyspace and the cluster, whose keys are those of the keyspace without its prefix. It
// refuses requests of other keyspaces, and those that are not of the second version of the API.
//
// In it TiKV knows nothing of keyspaces but the prefix of keys. So what a client forgets to encode is refused, and what it does
// not tell TiKV to leave out, as of checksums, it gets.
type keyspace struct {
	prefix, end []byte // end is the first key after the keyspace
}

// newKeyspace returns what stands before the keyspace with an ID.
func newKeyspace(meta *keyspacepb.KeyspaceMeta) *keyspace {
	const transactions = 'x'
	k := &keyspace{}
	k.prefix = binary.BigEndian.AppendUint32(nil, transactions<<24|meta.Id)
	k.end = binary.BigEndian.AppendUint32(nil, transactions<<24|meta.Id+1)
	return k
}

// inner returns a key as the store has it: nil for the end of the keyspace.
func (k *keyspace) inner(key []byte) ([]byte, error) {
	switch {
	case len(key) == 0 || bytes.Equal(key, k.end):
		return nil, nil
	case bytes.HasPrefix(key, k.prefix):
		return key[len(k.prefix):], nil
	}
	return nil, status.Errorf(codes.InvalidArgument, "key %x is not of keyspace %x", key, k.prefix)
}

// outer is the opposite.
func (k *keyspace) outer(key []byte) ([]byte, error) {
	if len(key) == 0 {
		return nil, nil
	}
	return append(bytes.Clone(k.prefix), key...), nil
}

// innerRegion returns a key as in the range of a region.
func (k *keyspace) innerRegion(key []byte) ([]byte, error) {
	if len(key) == 0 {
		return nil, nil
	}
	_, raw, err := codec.DecodeBytes(key, nil)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "key %x of a region: %v", key, err)
	}
	inner, err := k.inner(raw)
	if err != nil || inner == nil {
		return nil, err
	}
	return codec.EncodeBytes(nil, inner), nil
}

// outerRegion is the opposite: the first and the last region end where the keyspace does.
func (k *keyspace) outerRegion(key []byte, isEnd bool) ([]byte, error) {
	switch {
	case len(key) == 0 && isEnd:
		return codec.EncodeBytes(nil, k.end), nil
	case len(key) == 0:
		return codec.EncodeBytes(nil, k.prefix), nil
	}
	_, raw, err := codec.DecodeBytes(key, nil)
	if err != nil {
		return nil, fmt.Errorf("key %x of a region: %w", key, err)
	}
	return codec.EncodeBytes(nil, append(bytes.Clone(k.prefix), raw...)), nil
}

// keyFields are the names of all fields that hold keys, in requests and answers of TiKV and PD.
var keyFields = map[string]bool{
	"Key": true, "Keys": true, "StartKey": true, "EndKey": true, "Start": true, "End": true, "Primary": true, "PrimaryKey": true,
	"PrimaryLock": true, "Secondaries": true, "SplitKey": true, "SplitKeys": true, "LockKey": true, "RegionKey": true,
}

// ofRegions are the types whose keys are as in the range of a region, or some of them.
var ofRegions = map[reflect.Type]bool{
	reflect.TypeFor[metapb.Region](): true, reflect.TypeFor[import_sstpb.Range](): true, reflect.TypeFor[errorpb.KeyNotInRegion](): true,
}

// isOfRegion says that the field of a message is a key as in the range of a region. All of PD's are.
func isOfRegion(message reflect.Type, field string) bool {
	if message == reflect.TypeFor[errorpb.KeyNotInRegion]() && field == "Key" {
		return false
	}
	return ofRegions[message] || strings.HasSuffix(message.PkgPath(), "/pdpb")
}

// in changes a request of a method into one for the store.
func (k *keyspace) in(method string, m any) error {
	check := k.check
	if strings.HasPrefix(method, importService) {
		check = checkFile // the contexts of requests are not checked
	}
	return k.walk(reflect.ValueOf(m), func(message reflect.Type, field string, key []byte) ([]byte, error) {
		if isOfRegion(message, field) {
			return k.innerRegion(key)
		}
		return k.inner(key)
	}, check)
}

// checkFile makes sure that a file is one of the second version of the API.
func checkFile(part any) error {
	if meta, ok := part.(*import_sstpb.SSTMeta); ok && meta.ApiVersion != kvrpcpb.APIVersion_V2 {
		return status.Errorf(codes.InvalidArgument, "API version %s of a file in a keyspace", meta.ApiVersion)
	}
	return nil
}

// check makes sure that a part of a request is of the second version of the API, of which the store knows nothing.
func (k *keyspace) check(part any) error {
	switch part := part.(type) {
	case *kvrpcpb.Context:
		if part.RegionId != 0 && part.ApiVersion != kvrpcpb.APIVersion_V2 {
			return status.Errorf(codes.InvalidArgument, "API version %s in a keyspace", part.ApiVersion)
		}
		part.ApiVersion, part.KeyspaceId = kvrpcpb.APIVersion_V1, 0
	case *coprocessor.Request:
		if part.Tp == tidbkv.ReqTypeChecksum {
			return k.checksum(part)
		}
	}
	return nil
}

// checksum has keys summed up as TiKV does: with the prefix of the keyspace, unless that is to be left out.
func (k *keyspace) checksum(req *coprocessor.Request) error {
	sum := &tipb.ChecksumRequest{}
	if err := sum.Unmarshal(req.Data); err != nil {
		return err
	}
	switch {
	case sum.Rule == nil:
		sum.Rule = &tipb.ChecksumRewriteRule{OldPrefix: k.prefix}
	case !bytes.HasPrefix(sum.Rule.NewPrefix, k.prefix):
		return status.Errorf(codes.InvalidArgument, "prefix %x in keyspace %x", sum.Rule.NewPrefix, k.prefix)
	default:
		sum.Rule.NewPrefix = sum.Rule.NewPrefix[len(k.prefix):]
	}
	data, err := sum.Marshal()
	req.Data = data
	return err
}

// message is what both kinds of protocol buffers' code can do.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// out returns a copy of an answer for the client.
func (k *keyspace) out(m any) (any, error) {
	original, ok := m.(message)
	if !ok {
		return m, nil
	}
	data, err := original.Marshal()
	if err != nil {
		return nil, err
	}
	changed := reflect.New(reflect.TypeOf(m).Elem())
	if err := changed.Interface().(message).Unmarshal(data); err != nil {
		return nil, err
	}
	err = k.walk(changed, func(message reflect.Type, field string, key []byte) ([]byte, error) {
		if isOfRegion(message, field) {
			return k.outerRegion(key, strings.HasPrefix(field, "End"))
		}
		return k.outer(key)
	}, func(any) error { return nil })
	return changed.Interface(), err
}

// walk calls change for all keys in a message, and first visit for the message and all that it consists of.
func (k *keyspace) walk(v reflect.Value, change func(message reflect.Type, field string, key []byte) ([]byte, error), visit func(any) error) error {
	switch v.Kind() {
	case reflect.Interface:
		return k.walk(v.Elem(), change, visit)
	case reflect.Slice:
		if isBytes(v.Type()) {
			return nil
		}
		for i := range v.Len() {
			if err := k.walk(v.Index(i), change, visit); err != nil {
				return err
			}
		}
		return nil
	case reflect.Pointer:
		if v.IsNil() || v.Elem().Kind() != reflect.Struct {
			return nil
		}
		if err := visit(v.Interface()); err != nil {
			return err
		}
		return k.walkFields(v.Elem(), change, visit)
	case reflect.Struct:
		return k.walkFields(v, change, visit)
	}
	return nil
}

func (k *keyspace) walkFields(v reflect.Value, change func(message reflect.Type, field string, key []byte) ([]byte, error), visit func(any) error) error {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		if !field.IsExported() || strings.HasPrefix(field.Name, "XXX_") {
			continue
		}
		keys := []reflect.Value{value}
		if value.Kind() == reflect.Slice && isBytes(value.Type().Elem()) {
			keys = nil
			for n := range value.Len() {
				keys = append(keys, value.Index(n))
			}
		} else if !isBytes(value.Type()) {
			if err := k.walk(value, change, visit); err != nil {
				return err
			}
			continue
		}
		if !keyFields[field.Name] {
			continue
		}
		for _, key := range keys {
			changed, err := change(v.Type(), field.Name, key.Bytes())
			if err != nil {
				return fmt.Errorf("%s.%s: %w", v.Type(), field.Name, err)
			}
			key.SetBytes(changed)
		}
	}
	return nil
}

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

const (
	placementService = "/pdpb.PD/"
	storeService     = "/tikvpb.Tikv/"
	importService    = "/import_sstpb.ImportSST/"
)

// concerns says that the keys of a method are those of the keyspace: not those of etcd, which PD serves as well.
func concerns(method string) bool {
	for _, service := range []string{placementService, storeService, importService} {
		if strings.HasPrefix(method, service) {
			return true
		}
	}
	return false
}

// unary changes requests that come alone, and their answers.
func (k *keyspace) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if k == nil || !concerns(info.FullMethod) {
		return handler(ctx, req)
	}
	if err := k.in(info.FullMethod, req); err != nil {
		return nil, err
	}
	resp, err := handler(ctx, req)
	if err != nil || resp == nil {
		return resp, err
	}
	return k.out(resp)
}

// stream changes requests that come in streams, and their answers.
func (k *keyspace) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if k == nil || !concerns(info.FullMethod) {
		return handler(srv, stream)
	}
	return handler(srv, &keyspaceStream{ServerStream: stream, keyspace: k, method: info.FullMethod})
}

type keyspaceStream struct {
	grpc.ServerStream
	keyspace *keyspace
	method   string
}

// RecvMsg implements grpc.ServerStream.
func (s *keyspaceStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.keyspace.in(s.method, m)
}

// SendMsg implements grpc.ServerStream.
func (s *keyspaceStream) SendMsg(m any) error {
	changed, err := s.keyspace.out(m)
	if err != nil {
		return err
	}
	return s.ServerStream.SendMsg(changed)
}
