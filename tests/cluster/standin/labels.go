package standin

import (
	"encoding/json"
	"slices"
	"time"

	pdhttp "github.com/tikv/pd/client/http"
	"go.uber.org/zap"
)

// expireLabels forgets the rules of which all labels have outlived their time.
func (a *httpAPI) expireLabels() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, data := range a.labels {
		var rule pdhttp.LabelRule
		if err := json.Unmarshal(data, &rule); err != nil {
			a.log.Warn("label rule", zap.String("id", id), zap.Error(err))
			continue
		}
		live := slices.ContainsFunc(rule.Labels, func(l pdhttp.RegionLabel) bool {
			ttl, err := time.ParseDuration(l.TTL)
			return err != nil || time.Since(a.set[id]) < ttl // without a time they live forever
		})
		if !live {
			delete(a.labels, id)
		}
	}
}
