package ddl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/catalog"
)

// ErrNotOwner stops a component that runs jobs after another has begun to. The
// jobs go on there.
var ErrNotOwner = dbterror.ErrNotOwner

// ownerKey is the record of who runs the jobs of a store.
var ownerKey = []byte("FastDDLOwner")

// ownerRecord names the owner. Whoever starts to run jobs takes the next term,
// and every write to a job's record is fenced by the term it is made in.
type ownerRecord struct {
	Term int64  `json:"term"`
	ID   string `json:"id"`
}

// takeOwnership begins a new term. Writes of earlier terms fail from then on:
// those that commit before are seen by whoever loads the queue afterwards.
func (d *DDL) takeOwnership(ctx context.Context) error {
	_, err := d.cat.Update(ctx, func(_ context.Context, m *catalog.Mutation) error {
		last, err := loadOwner(m)
		if err != nil {
			return err
		}
		d.term = last.Term + 1
		data, err := json.Marshal(ownerRecord{Term: d.term, ID: d.opts.Owner})
		if err != nil {
			return fmt.Errorf("encode DDL owner: %w", err)
		}
		return m.Structure().Set(ownerKey, data)
	})
	if err != nil {
		return fmt.Errorf("take DDL ownership: %w", err)
	}
	return nil
}

// update is catalog.Update for what only the owner may write. In a term that
// has ended it fails with ErrNotOwner, and stops the component.
func (d *DDL) update(ctx context.Context, fn func(ctx context.Context, m *catalog.Mutation) error) error {
	_, err := d.cat.Update(ctx, func(ctx context.Context, m *catalog.Mutation) error {
		owner, err := loadOwner(m)
		if err != nil {
			return err
		}
		if owner.Term != d.term {
			return ErrNotOwner.FastGenByArgs()
		}
		// The snapshot may be older than the next term. The lock makes the commit
		// fail then; the catalog's updates do not meet on it, as they take turns.
		if err := m.Txn.LockKeys(m.Structure().EncodeStringDataKey(ownerKey)); err != nil {
			return err
		}
		return fn(ctx, m)
	})
	if errors.Is(err, ErrNotOwner) {
		d.cancel(err)
	}
	return err
}

func loadOwner(m *catalog.Mutation) (o ownerRecord, err error) {
	data, err := m.Structure().Get(ownerKey)
	if err != nil || data == nil {
		return o, err
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return o, fmt.Errorf("decode DDL owner: %w", err)
	}
	return o, nil
}
