package catalog

import "context"

// Hashes of our own under the `m` prefix.
var (
	globalVarsHash = []byte("FastDDLGlobalVars")
	blobsHash      = []byte("FastDDLBlobs")
)

// SetGlobalVar persists a global system variable.
func (c *Catalog) SetGlobalVar(ctx context.Context, name, value string) error {
	return c.mutate(ctx, func(_ context.Context, m *Mutation) error {
		return m.Structure().HSet(globalVarsHash, []byte(name), []byte(value))
	})
}

// GlobalVars returns all persisted global system variables.
func (c *Catalog) GlobalVars(ctx context.Context) (map[string]string, error) {
	vars := make(map[string]string)
	err := c.View(ctx, func(_ context.Context, m *Mutation) error {
		pairs, err := m.Structure().HGetAll(globalVarsHash)
		for _, p := range pairs {
			vars[string(p.Field)] = string(p.Value)
		}
		return err
	})
	return vars, err
}

// SetBlob persists a named, non-empty record.
func (c *Catalog) SetBlob(ctx context.Context, name string, data []byte) error {
	return c.mutate(ctx, func(_ context.Context, m *Mutation) error {
		return m.Structure().HSet(blobsHash, []byte(name), data)
	})
}

// Blob returns a record, or nil if there is none of that name.
func (c *Catalog) Blob(ctx context.Context, name string) (data []byte, err error) {
	err = c.View(ctx, func(_ context.Context, m *Mutation) error {
		data, err = m.Structure().HGet(blobsHash, []byte(name))
		return err
	})
	return data, err
}
