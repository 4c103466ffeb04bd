package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/stretchr/testify/require"
	pd "github.com/tikv/pd/client"
	"go.uber.org/zap"
)

// storesOfPD is a PD that knows of stores, or fails.
type storesOfPD struct {
	pd.Client
	stores []*metapb.Store
	err    error
}

func (p storesOfPD) GetAllStores(context.Context, ...pd.GetStoreOption) ([]*metapb.Store, error) {
	return p.stores, p.err
}

// TestSplitBytes: regions are filled as far as TiKV is configured to fill them, and as far
// as it was of old if that cannot be known.
func TestSplitBytes(t *testing.T) {
	size := ""
	tikv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/config" {
			http.NotFound(w, req)
			return
		}
		fmt.Fprintf(w, `{"coprocessor":{"region-split-size":%q,"region-split-keys":2560000}}`, size)
	}))
	defer tikv.Close()
	addr := strings.TrimPrefix(tikv.URL, "http://")
	known := storesOfPD{stores: []*metapb.Store{{Id: 1, Address: addr, StatusAddress: addr}}}
	for text, want := range map[string]int64{"256MiB": 256 << 20, "96MiB": 0, "1KiB": 0, "no number": 0} {
		size = text
		require.Equal(t, want, splitBytes(t.Context(), known, zap.NewNop()), text)
	}
	size = "256MiB"
	require.Zero(t, splitBytes(t.Context(), storesOfPD{err: errors.New("PD is away")}, zap.NewNop()))
	silent := storesOfPD{stores: append([]*metapb.Store{{Id: 2}}, known.stores...)} // the first has no HTTP
	require.EqualValues(t, 256<<20, splitBytes(t.Context(), silent, zap.NewNop()))

	// A store that does not answer does not hold up the others.
	asked := make(chan struct{})
	stuck := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		close(asked)
		<-req.Context().Done()
	}))
	defer stuck.Close()
	begun := known.stores[0]
	late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		<-asked
		tikv.Config.Handler.ServeHTTP(w, req)
	}))
	defer late.Close()
	begun.StatusAddress = strings.TrimPrefix(late.URL, "http://")
	both := storesOfPD{stores: []*metapb.Store{{Id: 3, StatusAddress: strings.TrimPrefix(stuck.URL, "http://")}, begun}}
	require.EqualValues(t, 256<<20, splitBytes(t.Context(), both, zap.NewNop()))
}
