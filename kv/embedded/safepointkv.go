package embedded

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/tikv/client-go/v2/tikv"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"fastddl/kv/pebblekv"
)

// recordSafePointKV begins the names of the records in which TiDB's GC worker and client-go keep their safe point.
const recordSafePointKV = "safe-point-kv/"

// safePointKV implements tikv.SafePointKV with records of the store.
type safePointKV struct {
	store *pebblekv.Store
	// oldest is what the SQL layer says of its sessions, nil as long as there is none.
	oldest *atomic.Pointer[func() uint64]
}

var _ tikv.SafePointKV = safePointKV{}

func newSafePointKV(store *pebblekv.Store) safePointKV {
	return safePointKV{store, new(atomic.Pointer[func() uint64])}
}

// minStartTSPath is where TiDB's servers put the start of the oldest transaction, statement or cursor that is open in one of
// their sessions (infosync.ServerMinStartTSPath, pkg/domain/infosync/info.go), if they have an etcd, and where TiDB's GC
// worker looks what it has to keep.
const minStartTSPath = "/tidb/server/minstartts"

// Put implements tikv.SafePointKV.
func (s safePointKV) Put(key, value string) error {
	if err := s.store.SaveMeta(context.Background(), recordSafePointKV+key, []byte(value)); err != nil {
		return fmt.Errorf("embedded: saving %s: %w", key, err)
	}
	return nil
}

// Get implements tikv.SafePointKV: an empty value stands for none.
func (s safePointKV) Get(key string) (string, error) {
	value, err := s.store.LoadMeta(context.Background(), recordSafePointKV+key)
	return string(value), err
}

// GetWithPrefix implements tikv.SafePointKV.
func (s safePointKV) GetWithPrefix(prefix string) ([]*mvccpb.KeyValue, error) {
	var out []*mvccpb.KeyValue
	if oldest := s.oldest.Load(); oldest != nil && prefix == minStartTSPath {
		if ts := (*oldest)(); ts > 0 { // otherwise nothing was reported yet
			out = append(out, &mvccpb.KeyValue{Key: []byte(prefix + "/embedded"), Value: strconv.AppendUint(nil, ts, 10)})
		}
	}
	err := s.store.EachMeta(context.Background(), recordSafePointKV+prefix, func(name string, value []byte) error {
		key := strings.TrimPrefix(name, recordSafePointKV)
		out = append(out, &mvccpb.KeyValue{Key: []byte(key), Value: bytes.Clone(value)})
		return nil
	})
	return out, err
}

// Close implements tikv.SafePointKV.
func (s safePointKV) Close() error { return nil }
