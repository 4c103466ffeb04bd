package embedded

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/tikv/client-go/v2/tikv"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"fastddl/kv/pebblekv"
)

// recordSafePointKV begins the names of the records in which TiDB's GC worker and client-go keep their safe point.
const recordSafePointKV = "safe-point-kv/"

// safePointKV implements tikv.SafePointKV with records of the store.
type safePointKV struct{ store *pebblekv.Store }

var _ tikv.SafePointKV = safePointKV{}

func newSafePointKV(store *pebblekv.Store) safePointKV { return safePointKV{store} }

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
	err := s.store.EachMeta(context.Background(), recordSafePointKV+prefix, func(name string, value []byte) error {
		key := strings.TrimPrefix(name, recordSafePointKV)
		out = append(out, &mvccpb.KeyValue{Key: []byte(key), Value: bytes.Clone(value)})
		return nil
	})
	return out, err
}

// Close implements tikv.SafePointKV.
func (s safePointKV) Close() error { return nil }
