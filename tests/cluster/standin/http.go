package standin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/mux"
	"github.com/pingcap/kvproto/pkg/pdpb"
	pd "github.com/tikv/pd/client"
	pdhttp "github.com/tikv/pd/client/http"
	"go.uber.org/zap"
)

// pdVersion is what PD says it is.
const pdVersion = "v8.5.0"

// httpAPI is the part of PD's HTTP API that SQL servers use.
type httpAPI struct {
	client  pd.Client
	holds   holdLister
	store   string // address of TiKV
	log     *zap.Logger
	started time.Time

	mu      sync.Mutex
	bundles map[string]json.RawMessage // placement rules by their group
	groups  map[string]json.RawMessage // groups of placement rules by their ID
	labels  map[string]json.RawMessage // label rules by their ID
	set     map[string]time.Time       // when something with an ID was last set
}

func newHTTPAPI(client pd.Client, holds holdLister, store string, log *zap.Logger) *httpAPI {
	return &httpAPI{
		client: client, holds: holds, store: store, log: log.Named("pd-http"), started: time.Now(),
		bundles: make(map[string]json.RawMessage), groups: make(map[string]json.RawMessage), labels: make(map[string]json.RawMessage),
		set: make(map[string]time.Time),
	}
}

// handler serves the API to who knows PD as self.
func (a *httpAPI) handler(self *pdpb.Member) http.Handler {
	r := mux.NewRouter().UseEncodedPath().SkipClean(true) // keys are anything
	get := func(path string, answer func(*http.Request) any) {
		r.HandleFunc(path, func(w http.ResponseWriter, req *http.Request) { a.write(w, answer(req)) }).Methods(http.MethodGet)
	}
	constant := func(path string, value any) { get(path, func(*http.Request) any { return value }) }
	object := map[string]any{}

	constant(pdhttp.Version, map[string]string{"version": pdVersion})
	constant(pdhttp.Status, map[string]any{"version": pdVersion, "git_hash": "none", "build_ts": "none", "start_timestamp": a.started.Unix()})
	constant("/pd/api/v1/members", map[string]any{"members": []*pdpb.Member{self}, "leader": self, "etcd_leader": self})
	constant("/pd/api/v1/leader", self)
	constant("/pd/api/v1/health", []map[string]any{{
		"name": self.Name, "member_id": self.MemberId, "client_urls": self.ClientUrls, "health": true,
	}})
	constant(pdhttp.ClusterVersion, "8.5.0")
	constant(pdhttp.ClusterStatus, map[string]any{"is_initialized": true, "raft_bootstrap_time": a.started, "replication_status": "normal"})
	constant(pdhttp.Config, object)
	constant(pdhttp.ScheduleConfig, object)
	constant(pdhttp.ReplicateConfig, map[string]any{"max-replicas": 1, "location-labels": ""})
	constant(pdhttp.Schedulers, []string{})
	constant(pdhttp.HotRead, object)
	constant(pdhttp.HotWrite, object)
	constant(pdhttp.StatsRegion, pdhttp.RegionStats{})
	constant("/pd/api/v1/regions/replicated", "REPLICATED")
	constant("/pd/api/v1/regions/key", pdhttp.RegionsInfo{}) // their sizes are unknown
	get(pdhttp.Stores, func(req *http.Request) any { return a.stores(req.Context()) })
	get("/pd/api/v1/store/{id}", func(req *http.Request) any { return a.stores(req.Context()).Stores[0] })
	get("/pd/api/v1/region/id/{id}", func(req *http.Request) any {
		id, _ := strconv.ParseUint(mux.Vars(req)["id"], 10, 64) // there is no region 0
		return a.region(a.client.GetRegionByID(req.Context(), id))
	})
	get("/pd/api/v1/region/key/{key:.*}", func(req *http.Request) any {
		key, err := url.PathUnescape(mux.Vars(req)["key"])
		if err != nil {
			return a.region(nil, err)
		}
		return a.region(a.client.GetRegion(req.Context(), []byte(key)))
	})
	get(pdhttp.MinResolvedTSPrefix, func(req *http.Request) any { return a.resolved(req.Context()) })
	get("/pd/api/v1/gc/safepoint", a.safePoints)
	a.rules(r)
	r.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		a.log.Warn("not served", zap.String("method", req.Method), zap.String("path", req.URL.Path))
		http.NotFound(w, req)
	})
	r.MethodNotAllowedHandler = r.NotFoundHandler
	return r
}

// rules serves what is kept without effect: placement rules, and labels of key ranges.
func (a *httpAPI) rules(r *mux.Router) {
	r.HandleFunc(pdhttp.PlacementRuleBundle, func(w http.ResponseWriter, _ *http.Request) {
		a.write(w, a.values(a.bundles))
	}).Methods(http.MethodGet)
	r.HandleFunc(pdhttp.PlacementRuleBundle, func(w http.ResponseWriter, req *http.Request) {
		a.keep(w, req, a.bundles, "group_id")
	}).Methods(http.MethodPost)
	r.HandleFunc(pdhttp.PlacementRuleBundle+"/{id}", func(w http.ResponseWriter, req *http.Request) {
		a.write(w, a.value(a.bundles, mux.Vars(req)["id"]))
	}).Methods(http.MethodGet)
	r.HandleFunc(pdhttp.RegionLabelRules, func(w http.ResponseWriter, _ *http.Request) {
		a.expireLabels()
		a.write(w, a.values(a.labels))
	}).Methods(http.MethodGet)
	r.HandleFunc(pdhttp.RegionLabelRulesByIDs, func(w http.ResponseWriter, _ *http.Request) {
		a.expireLabels()
		a.write(w, a.values(a.labels)) // the client finds those that it wants
	}).Methods(http.MethodGet)
	r.HandleFunc(pdhttp.RegionLabelRule, func(w http.ResponseWriter, req *http.Request) {
		a.keep(w, req, a.labels, "id")
	}).Methods(http.MethodPost)
	r.HandleFunc(pdhttp.RegionLabelRules, a.patchLabels).Methods(http.MethodPatch)
	r.HandleFunc("/pd/api/v1/config/rule_group/{id}", func(w http.ResponseWriter, req *http.Request) {
		a.write(w, a.value(a.groups, mux.Vars(req)["id"]))
	}).Methods(http.MethodGet)
	r.HandleFunc("/pd/api/v1/config/rule_group", func(w http.ResponseWriter, req *http.Request) {
		a.keep(w, req, a.groups, "id")
	}).Methods(http.MethodPost)
	accept := func(w http.ResponseWriter, _ *http.Request) { a.write(w, "ok") }
	r.HandleFunc(pdhttp.Config, accept).Methods(http.MethodPost)
	r.HandleFunc(pdhttp.ScheduleConfig, accept).Methods(http.MethodPost)
	r.HandleFunc(pdhttp.AccelerateSchedule, accept).Methods(http.MethodPost)
	r.HandleFunc(pdhttp.AccelerateScheduleInBatch, accept).Methods(http.MethodPost)
}

func (a *httpAPI) write(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		a.log.Warn("answer not sent", zap.Error(err))
	}
}

// values returns all rules.
func (a *httpAPI) values(rules map[string]json.RawMessage) []json.RawMessage {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]json.RawMessage, 0, len(rules))
	for _, r := range rules {
		out = append(out, r)
	}
	return out
}

// value returns a rule, an empty one if there is none.
func (a *httpAPI) value(rules map[string]json.RawMessage, id string) json.RawMessage {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r, ok := rules[id]; ok {
		return r
	}
	return json.RawMessage("{}")
}

// keep stores the rule, or the list of rules, that a request brings, by the field key.
func (a *httpAPI) keep(w http.ResponseWriter, req *http.Request, rules map[string]json.RawMessage, key string) {
	body, err := io.ReadAll(req.Body)
	if err == nil {
		err = a.put(rules, key, body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.write(w, "ok")
}

func (a *httpAPI) put(rules map[string]json.RawMessage, key string, body []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(body, &list); err != nil {
		list = []json.RawMessage{body}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, rule := range list {
		var fields map[string]any
		if err := json.Unmarshal(rule, &fields); err != nil {
			return err
		}
		if id, ok := fields[key].(string); ok {
			rules[id], a.set[id] = rule, time.Now()
		}
	}
	return nil
}

// patchLabels stores some label rules and deletes others.
func (a *httpAPI) patchLabels(w http.ResponseWriter, req *http.Request) {
	var patch struct {
		Sets    json.RawMessage `json:"sets"`
		Deletes []string        `json:"deletes"`
	}
	err := json.NewDecoder(req.Body).Decode(&patch)
	if err == nil && len(patch.Sets) > 0 && string(patch.Sets) != "null" {
		err = a.put(a.labels, "id", patch.Sets)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	for _, id := range patch.Deletes {
		delete(a.labels, id)
	}
	a.mu.Unlock()
	a.write(w, "ok")
}

// stores describes the only store.
func (a *httpAPI) stores(ctx context.Context) pdhttp.StoresInfo {
	info := pdhttp.StoresInfo{}
	list, err := a.client.GetAllStores(ctx)
	if err != nil {
		a.log.Warn("stores", zap.Error(err))
	}
	for _, s := range list {
		info.Stores = append(info.Stores, pdhttp.StoreInfo{
			Store: pdhttp.MetaStore{
				ID: int64(s.Id), Address: a.store, StatusAddress: a.store, State: int64(s.State), StateName: s.State.String(),
				Version: s.Version, StartTimestamp: s.StartTimestamp,
			},
			Status: pdhttp.StoreStatus{
				Capacity: "1TiB", Available: "1TiB", StartTS: a.started, LastHeartbeatTS: time.Now(),
				Uptime: time.Since(a.started).String(),
			},
		})
	}
	info.Count = len(info.Stores)
	return info
}

// resolved says that reads at any timestamp are safe.
func (a *httpAPI) resolved(ctx context.Context) any {
	physical, logical, err := a.client.GetTS(ctx)
	if err != nil {
		a.log.Warn("timestamp", zap.Error(err))
	}
	ts := uint64(physical)<<18 | uint64(logical)
	return map[string]any{
		"min_resolved_ts": ts, "is_real_time": true, "persist_interval": "1s",
		"stores_min_resolved_ts": map[string]uint64{strconv.Itoa(1): ts},
	}
}

// region describes a region, of which only the range is known.
func (a *httpAPI) region(r *pd.Region, err error) any {
	if err != nil || r == nil {
		a.log.Warn("region", zap.Error(err))
		return pdhttp.RegionInfo{}
	}
	peer := pdhttp.RegionPeer{ID: int64(r.Leader.Id), StoreID: int64(r.Leader.StoreId)}
	return pdhttp.RegionInfo{
		ID: int64(r.Meta.Id), StartKey: fmt.Sprintf("%X", r.Meta.StartKey), EndKey: fmt.Sprintf("%X", r.Meta.EndKey),
		Epoch: pdhttp.RegionEpoch{ConfVer: int64(r.Meta.RegionEpoch.ConfVer), Version: int64(r.Meta.RegionEpoch.Version)},
		Peers: []pdhttp.RegionPeer{peer}, Leader: peer,
	}
}
