package placement

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pingcap/kvproto/pkg/meta_storagepb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	pd "github.com/tikv/pd/client"

	"fastddl/kv/pebblekv"
)

const (
	recordMeta = "pd/meta/"
	// globalConfig is what keys of the global configuration begin with.
	globalConfig      = "global-config"
	defaultConfigPath = "/global/config/"
	// watchBuffer is how many events a watcher may be behind before it is cut off and has to watch anew.
	watchBuffer = 1024
)

// metaStorage is PD's small key-value store with revisions and watches, kept in records of the store.
type metaStorage struct {
	store *pebblekv.Store

	mu       sync.Mutex
	revision int64
	pairs    map[string]metaPair
	watchers []*metaWatcher
}

type metaPair struct {
	value    []byte
	revision int64
}

type metaWatcher struct {
	prefix string
	ch     chan []*meta_storagepb.Event
}

func loadMetaStorage(ctx context.Context, store *pebblekv.Store) (*metaStorage, error) {
	m := &metaStorage{store: store, revision: 1, pairs: make(map[string]metaPair)}
	err := store.EachMeta(ctx, recordMeta, func(name string, value []byte) error {
		if len(value) < 8 {
			return fmt.Errorf("placement: record %s is too short", name)
		}
		p := metaPair{revision: int64(binary.BigEndian.Uint64(value)), value: bytes.Clone(value[8:])}
		m.pairs[strings.TrimPrefix(name, recordMeta)] = p
		m.revision = max(m.revision, p.revision)
		return nil
	})
	return m, err
}

// put stores a value, or removes the key if the value is nil, and notifies the watchers.
func (m *metaStorage) put(ctx context.Context, key string, value []byte) (previous []byte, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, existed := m.pairs[key]
	revision := m.revision + 1
	var record []byte
	if value != nil {
		record = append(binary.BigEndian.AppendUint64(nil, uint64(revision)), value...)
	}
	if err := m.store.SaveMeta(ctx, recordMeta+key, record); err != nil {
		return nil, err
	}
	m.revision = revision
	event := &meta_storagepb.Event{Kv: &meta_storagepb.KeyValue{Key: []byte(key), Value: value, ModRevision: revision}}
	if existed {
		event.PrevKv = &meta_storagepb.KeyValue{Key: []byte(key), Value: old.value, ModRevision: old.revision}
	}
	if value == nil {
		delete(m.pairs, key)
		event.Type = meta_storagepb.Event_DELETE
	} else {
		m.pairs[key] = metaPair{value: bytes.Clone(value), revision: revision}
	}
	m.notify(key, event)
	return old.value, nil
}

// notify sends an event to whom it concerns. The caller holds mu.
func (m *metaStorage) notify(key string, event *meta_storagepb.Event) {
	m.watchers = slices.DeleteFunc(m.watchers, func(w *metaWatcher) bool {
		if !strings.HasPrefix(key, w.prefix) {
			return false
		}
		select {
		case w.ch <- []*meta_storagepb.Event{event}:
			return false
		default:
			close(w.ch)
			return true
		}
	})
}

// get returns the pair of a key, or else all pairs whose keys begin with it, in order.
func (m *metaStorage) get(key string) (kvs []*meta_storagepb.KeyValue, revision int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p, ok := m.pairs[key]; ok {
		return []*meta_storagepb.KeyValue{p.keyValue(key)}, m.revision
	}
	for k, p := range m.pairs {
		if strings.HasPrefix(k, key) {
			kvs = append(kvs, p.keyValue(k))
		}
	}
	slices.SortFunc(kvs, func(a, b *meta_storagepb.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
	return kvs, m.revision
}

func (p metaPair) keyValue(key string) *meta_storagepb.KeyValue {
	return &meta_storagepb.KeyValue{Key: []byte(key), Value: bytes.Clone(p.value), ModRevision: p.revision}
}

// watch sends what changes in keys that begin with prefix from now on, until ctx ends.
func (m *metaStorage) watch(ctx context.Context, prefix string) chan []*meta_storagepb.Event {
	w := &metaWatcher{prefix: prefix, ch: make(chan []*meta_storagepb.Event, watchBuffer)}
	m.mu.Lock()
	m.watchers = append(m.watchers, w)
	m.mu.Unlock()
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if i := slices.Index(m.watchers, w); i >= 0 {
			m.watchers = slices.Delete(m.watchers, i, i+1)
			close(w.ch)
		}
	})
	return w.ch
}

// Get implements pd.MetaStorageClient. The options cannot be read outside PD's package: a key that does not exist stands
// for the keys that begin with it.
func (c *Client) Get(_ context.Context, key []byte, _ ...pd.OpOption) (*meta_storagepb.GetResponse, error) {
	kvs, revision := c.meta.get(string(key))
	return &meta_storagepb.GetResponse{Header: c.metaHeader(revision), Kvs: kvs, Count: int64(len(kvs))}, nil
}

// Put implements pd.MetaStorageClient.
func (c *Client) Put(ctx context.Context, key, value []byte, _ ...pd.OpOption) (*meta_storagepb.PutResponse, error) {
	if len(value) == 0 {
		return nil, errors.New("placement: the value must not be empty")
	}
	previous, err := c.meta.put(ctx, string(key), value)
	if err != nil {
		return nil, err
	}
	resp := &meta_storagepb.PutResponse{Header: c.metaHeader(0)}
	if previous != nil {
		resp.PrevKv = &meta_storagepb.KeyValue{Key: key, Value: previous}
	}
	return resp, nil
}

// Watch implements pd.MetaStorageClient: it sends the changes of all keys that begin with key from now on.
func (c *Client) Watch(ctx context.Context, key []byte, _ ...pd.OpOption) (chan []*meta_storagepb.Event, error) {
	return c.meta.watch(ctx, string(key)), nil
}

func (c *Client) metaHeader(revision int64) *meta_storagepb.ResponseHeader {
	return &meta_storagepb.ResponseHeader{ClusterId: c.clusterID, Revision: revision}
}

// configKey is where the item of a configuration path is stored.
func configKey(path, name string) string {
	if path == "" {
		path = defaultConfigPath
	}
	return globalConfig + strings.TrimSuffix(path, "/") + "/" + name
}

// LoadGlobalConfig implements pd.Client: the named items, or all under the path.
func (c *Client) LoadGlobalConfig(_ context.Context, names []string, path string) ([]pd.GlobalConfigItem, int64, error) {
	prefix := configKey(path, "")
	kvs, revision := c.meta.get(prefix)
	var items []pd.GlobalConfigItem
	for _, p := range kvs {
		name := strings.TrimPrefix(string(p.Key), prefix)
		if len(names) == 0 || slices.Contains(names, name) {
			items = append(items, configItem(name, p.Value))
		}
	}
	return items, revision, nil
}

func configItem(name string, value []byte) pd.GlobalConfigItem {
	return pd.GlobalConfigItem{EventType: pdpb.EventType_PUT, Name: name, Value: string(value), PayLoad: value}
}

// StoreGlobalConfig implements pd.Client.
func (c *Client) StoreGlobalConfig(ctx context.Context, path string, items []pd.GlobalConfigItem) error {
	for _, item := range items {
		value := item.PayLoad
		if len(value) == 0 {
			value = []byte(item.Value)
		}
		if item.EventType == pdpb.EventType_DELETE || len(value) == 0 {
			value = nil
		}
		if _, err := c.meta.put(ctx, configKey(path, item.Name), value); err != nil {
			return err
		}
	}
	return nil
}

// WatchGlobalConfig implements pd.Client.
func (c *Client) WatchGlobalConfig(ctx context.Context, path string, _ int64) (chan []pd.GlobalConfigItem, error) {
	prefix := configKey(path, "")
	events := c.meta.watch(ctx, prefix)
	ch := make(chan []pd.GlobalConfigItem, 16)
	go func() {
		defer close(ch)
		for batch := range events {
			var items []pd.GlobalConfigItem
			for _, e := range batch {
				item := configItem(strings.TrimPrefix(string(e.Kv.Key), prefix), e.Kv.Value)
				if e.Type == meta_storagepb.Event_DELETE {
					item.EventType = pdpb.EventType_DELETE
				}
				items = append(items, item)
			}
			select {
			case ch <- items:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ch, nil
}

const recordExternalTS = "external-timestamp"

// GetExternalTimestamp implements pd.Client.
func (c *Client) GetExternalTimestamp(context.Context) (uint64, error) {
	kvs, _ := c.meta.get(recordExternalTS)
	if len(kvs) == 0 || len(kvs[0].Value) != 8 {
		return 0, nil
	}
	return binary.BigEndian.Uint64(kvs[0].Value), nil
}

// SetExternalTimestamp implements pd.Client: it never goes back, nor beyond the present.
func (c *Client) SetExternalTimestamp(ctx context.Context, ts uint64) error {
	c.extTS.Lock()
	defer c.extTS.Unlock()
	now, err := c.store.CurrentTS(ctx)
	if err != nil {
		return err
	}
	if ts > now {
		return errors.New("placement: the external timestamp must not be in the future")
	}
	current, err := c.GetExternalTimestamp(ctx)
	if err != nil {
		return err
	}
	if ts < current {
		return errors.New("placement: the external timestamp must not go back")
	}
	_, err = c.meta.put(ctx, recordExternalTS, binary.BigEndian.AppendUint64(nil, ts))
	return err
}
