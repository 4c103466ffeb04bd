package sstimport

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	pdhttp "github.com/tikv/pd/client/http"
	"go.uber.org/zap"

	"fastddl/internal/errs"
	"fastddl/kv"
)

// labelTimeout bounds a request for a label rule.
const labelTimeout = 5 * time.Second

// labelPrefix begins the identities of our label rules.
const labelPrefix = "fastddl-import-"

// pauseScheduling keeps PD from moving regions until release is called, or as long as this
// process renews it. If the request to PD fails, the import goes on without.
func (im *Importer) pauseScheduling(ctx context.Context, regions []kv.KeyRange) (release func()) {
	rule, err := im.labelRule(regions)
	if err == nil {
		err = im.setLabel(ctx, rule)
	}
	if err != nil {
		im.warnLabels.Do(func() { im.log.Warn("PD may move regions during imports", zap.Error(err)) })
	}
	if rule == nil {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if err := im.renewLabel(ctx, rule, end); err != nil {
			im.log.Warn("a label rule is not renewed any more", zap.Error(err))
		}
	}()
	return func() {
		close(end)
		<-ended // a renewal that is under way would bring the rule back
		// Also if it was never set, as far as is known: the answer may have been lost.
		im.deleteLabel(context.WithoutCancel(ctx), rule.ID, err != nil)
	}
}

// labelRule denies PD to schedule regions, and those that they are split into. PD splits
// regions where the range of a rule begins or ends, and a rule has effect on those only that
// lie within one of its ranges (pkg/schedule/checker/split_checker.go and
// pkg/schedule/labeler of PD): so the ranges are whole regions, and neighbours are one.
func (im *Importer) labelRule(regions []kv.KeyRange) (*pdhttp.LabelRule, error) {
	id, err := newUUID()
	if err != nil {
		return nil, err
	}
	var ranges []map[string]string
	for _, r := range joined(regions) {
		start, end := im.opts.Codec.EncodeRegionRange(r.Start, r.End)
		if len(r.Start) == 0 && im.opts.Codec.GetAPIVersion() == kvrpcpb.APIVersion_V1 {
			start = nil // which is before the code of the empty key
		}
		ranges = append(ranges, map[string]string{"start_key": hex.EncodeToString(start), "end_key": hex.EncodeToString(end)})
	}
	return &pdhttp.LabelRule{
		ID:       labelPrefix + hex.EncodeToString(id),
		Labels:   []pdhttp.RegionLabel{{Key: "schedule", Value: "deny", TTL: im.opts.LabelTTL.String()}},
		RuleType: "key-range", Data: ranges,
	}, nil
}

func (im *Importer) setLabel(ctx context.Context, rule *pdhttp.LabelRule) error {
	ctx, cancel := context.WithTimeout(ctx, labelTimeout)
	defer cancel()
	if err := im.opts.Labels.SetRegionLabelRule(ctx, rule); err != nil {
		return fmt.Errorf("set label rule %s: %w", rule.ID, err)
	}
	return nil
}

// renewLabel sets the rule again, three times in its life, until end is closed.
func (im *Importer) renewLabel(ctx context.Context, rule *pdhttp.LabelRule, end <-chan struct{}) (err error) {
	defer errs.Contain(&err)
	ticker := time.NewTicker(max(im.opts.LabelTTL/3, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-end:
			return nil
		case <-ticker.C:
			if err := im.setLabel(context.WithoutCancel(ctx), rule); err != nil {
				im.log.Debug("a label rule is not renewed", zap.Error(err)) // the next time may be in time
			}
		}
	}
}

// deleteLabel deletes a rule. What it cannot delete ends by itself.
func (im *Importer) deleteLabel(ctx context.Context, id string, unknown bool) {
	ctx, cancel := context.WithTimeout(ctx, labelTimeout)
	defer cancel()
	err := im.opts.Labels.PatchRegionLabelRules(ctx, &pdhttp.LabelRulePatch{DeleteRules: []string{id}})
	if err != nil && !unknown {
		im.log.Warn("a label rule is not deleted; it ends by itself", zap.String("id", id), zap.Duration("ttl", im.opts.LabelTTL), zap.Error(err))
	}
}
