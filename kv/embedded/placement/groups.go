package placement

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	rmpb "github.com/pingcap/kvproto/pkg/resource_manager"
	pd "github.com/tikv/pd/client"
)

const (
	defaultGroup         = "default"
	defaultGroupPriority = 8
	unlimitedBurst       = -1
	groupPath            = "resource_group/settings/"
)

// resourceGroups are the settings of resource groups, kept in the meta storage, and how many request units each may use.
type resourceGroups struct {
	meta *metaStorage

	mu      sync.Mutex
	buckets map[string]*tokenBucket
}

// tokenBucket fills at the group's rate and is emptied by what its members ask for.
type tokenBucket struct {
	tokens float64
	filled time.Time
}

// loadResourceGroups makes sure that there is the default group, which has no limit.
func loadResourceGroups(ctx context.Context, meta *metaStorage) (*resourceGroups, error) {
	g := &resourceGroups{meta: meta, buckets: make(map[string]*tokenBucket)}
	group, err := g.get(defaultGroup)
	if err != nil || group != nil {
		return g, err
	}
	return g, g.put(ctx, &rmpb.ResourceGroup{
		Name: defaultGroup,
		Mode: rmpb.GroupMode_RUMode,
		RUSettings: &rmpb.GroupRequestUnitSettings{
			RU: &rmpb.TokenBucket{Settings: &rmpb.TokenLimitSettings{FillRate: math.MaxInt32, BurstLimit: unlimitedBurst}},
		},
		Priority: defaultGroupPriority,
	})
}

// get returns a group, nil if there is none.
func (g *resourceGroups) get(name string) (*rmpb.ResourceGroup, error) {
	kvs, _ := g.meta.get(groupPath + name)
	for _, p := range kvs {
		if string(p.Key) == groupPath+name {
			group := &rmpb.ResourceGroup{}
			if err := group.Unmarshal(p.Value); err != nil {
				return nil, fmt.Errorf("placement: reading resource group %s: %w", name, err)
			}
			return group, nil
		}
	}
	return nil, nil
}

func (g *resourceGroups) put(ctx context.Context, group *rmpb.ResourceGroup) error {
	value, err := group.Marshal()
	if err != nil {
		return err
	}
	_, err = g.meta.put(ctx, groupPath+group.Name, value)
	return err
}

// grant takes up to wanted tokens out of a group's bucket.
func (g *resourceGroups) grant(name string, limit *rmpb.TokenLimitSettings, wanted float64) float64 {
	if limit.GetBurstLimit() < 0 {
		return wanted
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	rate := float64(limit.GetFillRate())
	size := max(float64(limit.GetBurstLimit()), rate)
	b := g.buckets[name]
	if b == nil {
		b = &tokenBucket{tokens: size, filled: now}
		g.buckets[name] = b
	}
	b.tokens = min(size, b.tokens+rate*now.Sub(b.filled).Seconds())
	b.filled = now
	granted := max(0, min(wanted, b.tokens))
	b.tokens -= granted
	return granted
}

// ListResourceGroups implements pd.ResourceManagerClient.
func (c *Client) ListResourceGroups(context.Context, ...pd.GetResourceGroupOption) ([]*rmpb.ResourceGroup, error) {
	kvs, _ := c.meta.get(groupPath)
	groups := make([]*rmpb.ResourceGroup, 0, len(kvs))
	for _, p := range kvs {
		group := &rmpb.ResourceGroup{}
		if err := group.Unmarshal(p.Value); err != nil {
			return nil, fmt.Errorf("placement: reading resource group %s: %w", strings.TrimPrefix(string(p.Key), groupPath), err)
		}
		groups = append(groups, group)
	}
	return groups, nil
}

// LoadResourceGroups implements pd.ResourceManagerClient.
func (c *Client) LoadResourceGroups(ctx context.Context) ([]*rmpb.ResourceGroup, int64, error) {
	_, revision := c.meta.get(groupPath)
	groups, err := c.ListResourceGroups(ctx)
	return groups, revision, err
}

// GetResourceGroup implements pd.ResourceManagerClient.
func (c *Client) GetResourceGroup(_ context.Context, name string, _ ...pd.GetResourceGroupOption) (*rmpb.ResourceGroup, error) {
	group, err := c.groups.get(name)
	if err == nil && group == nil {
		err = fmt.Errorf("the group %s does not exist", name)
	}
	return group, err
}

// AddResourceGroup implements pd.ResourceManagerClient.
func (c *Client) AddResourceGroup(ctx context.Context, group *rmpb.ResourceGroup) (string, error) {
	old, err := c.groups.get(group.Name)
	if err == nil && old != nil {
		err = fmt.Errorf("the group %s already exists", group.Name)
	}
	if err != nil {
		return "", err
	}
	return c.ModifyResourceGroup(ctx, group)
}

// ModifyResourceGroup implements pd.ResourceManagerClient.
func (c *Client) ModifyResourceGroup(ctx context.Context, group *rmpb.ResourceGroup) (string, error) {
	if err := c.groups.put(ctx, group); err != nil {
		return "", err
	}
	return "Success!", nil
}

// DeleteResourceGroup implements pd.ResourceManagerClient.
func (c *Client) DeleteResourceGroup(ctx context.Context, name string) (string, error) {
	if name == defaultGroup {
		return "", fmt.Errorf("the group %s cannot be deleted", name)
	}
	if _, err := c.meta.put(ctx, groupPath+name, nil); err != nil {
		return "", err
	}
	return "Success!", nil
}

// AcquireTokenBuckets implements pd.ResourceManagerClient.
func (c *Client) AcquireTokenBuckets(_ context.Context, req *rmpb.TokenBucketsRequest) ([]*rmpb.TokenBucketResponse, error) {
	var out []*rmpb.TokenBucketResponse
	for _, r := range req.GetRequests() {
		group, err := c.groups.get(r.ResourceGroupName)
		if err != nil {
			return nil, err
		}
		if group == nil {
			continue
		}
		limit := group.GetRUSettings().GetRU().GetSettings()
		resp := &rmpb.TokenBucketResponse{ResourceGroupName: r.ResourceGroupName}
		for _, item := range r.GetRuItems().GetRequestRU() {
			resp.GrantedRUTokens = append(resp.GrantedRUTokens, &rmpb.GrantedRUTokenBucket{
				Type: item.Type,
				GrantedTokens: &rmpb.TokenBucket{
					Tokens: c.groups.grant(group.Name, limit, item.Value),
					Settings: &rmpb.TokenLimitSettings{
						FillRate:   limit.GetFillRate(),
						BurstLimit: limit.GetBurstLimit(),
					},
				},
			})
		}
		out = append(out, resp)
	}
	return out, nil
}
