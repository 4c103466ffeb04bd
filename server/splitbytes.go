package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/docker/go-units"
	"github.com/pingcap/kvproto/pkg/metapb"
	tidbconfig "github.com/pingcap/tidb/pkg/config"
	pd "github.com/tikv/pd/client"
	"go.uber.org/zap"

	"fastddl/internal/errs"
)

const (
	// usualSplitBytes is what regions were to hold before TiKV 8.4. Smaller ones are not worth
	// a request each, and TiKV splits what is too large for it by itself.
	usualSplitBytes = 96 << 20
	// askedStores is how many stores are asked at once, and splitBytesTimeout how long the
	// first of them that answers may take to say how it is configured.
	askedStores       = 8
	splitBytesTimeout = 3 * time.Second
	// maxStoreConfig bounds the answer, in bytes: it is some 50 KB.
	maxStoreConfig = 4 << 20
)

// splitBytes is what the regions of the cluster are to hold, in bytes of keys and values,
// as the first TiKV store that answers is configured (coprocessor.region-split-size); 0,
// the importer's default, if none does or it says less than usual.
func splitBytes(ctx context.Context, client pd.Client, log *zap.Logger) int64 {
	size, err := askSplitBytes(ctx, client)
	if err != nil {
		log.Info("no store says how large regions are to be", zap.Error(err))
	}
	if size <= usualSplitBytes {
		return 0
	}
	return size
}

func askSplitBytes(ctx context.Context, client pd.Client) (int64, error) {
	security := tidbconfig.GetGlobalConfig().Security.ClusterSecurity()
	tlsConfig, err := security.ToTLSConfig()
	if err != nil {
		return 0, fmt.Errorf("TLS of the cluster: %w", err)
	}
	scheme, transport := "http", &http.Transport{TLSClientConfig: tlsConfig}
	defer transport.CloseIdleConnections()
	if tlsConfig != nil {
		scheme = "https"
	}
	stores, err := client.GetAllStores(ctx, pd.WithExcludeTombstone())
	if err != nil {
		return 0, fmt.Errorf("list the stores: %w", err)
	}
	stores = slices.DeleteFunc(stores, func(s *metapb.Store) bool { return s.StatusAddress == "" })
	stores = stores[:min(len(stores), askedStores)]
	ctx, cancel := context.WithTimeout(ctx, splitBytesTimeout)
	defer cancel() // the others need not answer any more
	answers := make(chan splitBytesAnswer, len(stores))
	for _, store := range stores {
		go func() {
			var a splitBytesAnswer
			defer func() { answers <- a }()
			defer errs.Contain(&a.err)
			a.size, a.err = storeSplitBytes(ctx, &http.Client{Transport: transport}, scheme+"://"+store.StatusAddress+"/config")
			if a.err != nil {
				a.err = fmt.Errorf("store %d: %w", store.Id, a.err)
			}
		}()
	}
	var problems []error
	for range stores {
		a := <-answers
		if a.err == nil {
			return a.size, nil
		}
		problems = append(problems, a.err)
	}
	return 0, errors.Join(problems...)
}

// splitBytesAnswer is the answer of one store.
type splitBytesAnswer struct {
	size int64
	err  error
}

// storeSplitBytes asks one store. TiFlash has another configuration, without such a size.
func storeSplitBytes(ctx context.Context, client *http.Client, url string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", url, resp.Status)
	}
	var config struct {
		Coprocessor struct {
			RegionSplitSize string `json:"region-split-size"`
		} `json:"coprocessor"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxStoreConfig)).Decode(&config); err != nil {
		return 0, fmt.Errorf("%s: %w", url, err)
	}
	size, err := units.RAMInBytes(config.Coprocessor.RegionSplitSize) // "96MiB"
	if err != nil {
		return 0, fmt.Errorf("%s: coprocessor.region-split-size: %w", url, err)
	}
	return size, nil
}
