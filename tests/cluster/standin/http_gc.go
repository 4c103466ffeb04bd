package standin

import (
	"context"
	"net/http"
	"strings"
	"time"

	pdhttp "github.com/tikv/pd/client/http"
	"go.uber.org/zap"
)

// serviceHolds is what the embedded store's holds of services begin with.
const serviceHolds = "service/"

// safePoints lists who holds garbage collection back. The store keeps to itself when holds
// end, but shows none that has ended.
func (a *httpAPI) safePoints(req *http.Request) any {
	list := pdhttp.ListServiceGCSafepoint{ServiceGCSafepoints: []*pdhttp.ServiceSafePoint{}}
	holds, err := a.holds(req.Context())
	if err != nil {
		a.log.Warn("holds on garbage collection", zap.Error(err))
	}
	for name, ts := range holds {
		if id, ok := strings.CutPrefix(name, serviceHolds); ok {
			list.ServiceGCSafepoints = append(list.ServiceGCSafepoints, &pdhttp.ServiceSafePoint{
				ServiceID: id, SafePoint: ts, ExpiredAt: time.Now().Add(time.Hour).Unix(),
			})
		}
	}
	return list
}

// holdLister lists holds on garbage collection by name.
type holdLister func(ctx context.Context) (map[string]uint64, error)
