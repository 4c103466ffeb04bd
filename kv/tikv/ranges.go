package tikv

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/tikv/client-go/v2/tikv"
	pdhttp "github.com/tikv/pd/client/http"
	"go.uber.org/zap"

	"fastddl/kv"
)

const (
	// statsRegions is how many regions PD is asked about at a time.
	statsRegions = 4096
	// statsTimeout bounds the wait for the sizes of regions: a plan is made without.
	statsTimeout = 5 * time.Second
	// regionMiB is the unit of their sizes.
	regionMiB = 1 << 20
)

// Ranges implements kv.Store: the pieces are regions. Their sizes are those last reported to
// PD, of the whole region; where PD knows none, or does not answer, they are 0.
func (s *Store) Ranges(ctx context.Context, r kv.KeyRange) ([]kv.SizedRange, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.exit()
	if r.Empty() {
		return nil, nil
	}
	regions, err := s.regions(ctx, r)
	if err != nil {
		return nil, failed(ctx, fmt.Sprintf("regions of %s", r), err)
	}
	pieces := cut(r, regions)
	sizes, err := s.regionSizes(ctx, r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		s.opts.Logger.Warn("PD does not tell the sizes of regions", zap.Error(err))
	}
	for i := range pieces {
		pieces[i].Bytes = sizes[pieces[i].region]
	}
	out := make([]kv.SizedRange, len(pieces))
	for i, p := range pieces {
		out[i] = p.SizedRange
	}
	return out, nil
}

func (s *Store) regions(ctx context.Context, r kv.KeyRange) ([]*tikv.KeyLocation, error) {
	end := r.End
	if end == nil {
		end = lastKey
	}
	return s.cluster.GetRegionCache().LocateKeyRange(backoffer(ctx), r.Start, end)
}

// piece is the part of a range that lies in a region.
type piece struct {
	kv.SizedRange
	region uint64
}

// cut cuts r where regions begin. The pieces cover r even if the cache is stale.
func cut(r kv.KeyRange, regions []*tikv.KeyLocation) []piece {
	at := piece{SizedRange: kv.SizedRange{KeyRange: r}}
	var pieces []piece
	for _, region := range regions {
		if bytes.Compare(region.StartKey, at.Start) > 0 && r.Contains(region.StartKey) {
			at.End = region.StartKey
			pieces = append(pieces, at)
			at = piece{SizedRange: kv.SizedRange{KeyRange: kv.KeyRange{Start: region.StartKey, End: r.End}}}
		}
		at.region = region.Region.GetID()
	}
	return append(pieces, at)
}

// regionSizes returns the sizes of the regions of r that PD knows, by the region's ID.
func (s *Store) regionSizes(ctx context.Context, r kv.KeyRange) (map[uint64]uint64, error) {
	client := s.cluster.GetPDHTTPClient()
	if client == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	sizes := make(map[uint64]uint64)
	start, end := s.cluster.GetCodec().EncodeRegionRange(r.Start, r.End)
	for {
		info, err := client.GetRegionsByKeyRange(ctx, pdhttp.NewKeyRange(start, end), statsRegions)
		if err != nil {
			return sizes, err
		}
		for _, region := range info.Regions {
			sizes[uint64(region.ID)] = uint64(max(0, region.ApproximateSize)) * regionMiB
		}
		if len(info.Regions) < statsRegions {
			return sizes, nil
		}
		next, err := hex.DecodeString(info.Regions[len(info.Regions)-1].EndKey)
		if err != nil {
			return sizes, fmt.Errorf("end of a region: %w", err)
		}
		if bytes.Compare(next, start) <= 0 || len(end) > 0 && bytes.Compare(next, end) >= 0 {
			return sizes, nil
		}
		start = next
	}
}
