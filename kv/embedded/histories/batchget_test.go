package histories

import (
	"context"
	"maps"
)

// batchGet gets keys in one request to each region. Under the race detector it gets one after the other: client-go gives the
// back-off of a request to several regions to goroutines while it still copies it for others, which is a race of its own.
func batchGet[V any](ctx context.Context, get func(context.Context, [][]byte) (map[string]V, error), keys [][]byte) (map[string]V, error) {
	if !raceDetector {
		return get(ctx, keys)
	}
	all := make(map[string]V, len(keys))
	for _, key := range keys {
		found, err := get(ctx, [][]byte{key})
		if err != nil {
			return nil, err
		}
		maps.Copy(all, found)
	}
	return all, nil
}
