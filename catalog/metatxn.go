package catalog

import (
	"context"
	"errors"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/structure"

	"fastddl/kv"
)

// Mutation is a metadata transaction: TiDB's accessors over the `m` keys and,
// for records of our own, its data structures and the transaction itself.
type Mutation struct {
	*meta.Mutator
	Txn kv.Txn

	txn  *metaTxn
	diff *model.SchemaDiff
}

// SetDiff says what this transaction changes in the schema. The schema version
// in it is filled in at commit. Without it the transaction is no schema change.
func (m *Mutation) SetDiff(d *model.SchemaDiff) { m.diff = d }

// Structure returns TiDB's string, hash and list structures under the `m`
// prefix, for records that TiDB has not.
func (m *Mutation) Structure() *structure.TxStructure {
	return structure.NewStructure(m.txn, m.txn, metaPrefix)
}

var metaPrefix = []byte("m")

func newMutation(txn kv.Txn) *Mutation {
	mt := &metaTxn{txn: txn}
	return &Mutation{Mutator: meta.NewMutator(mt), Txn: txn, txn: mt}
}

// metaTxn is the part of TiDB's kv.Transaction that pkg/meta and pkg/structure
// use. The embedded nil interface stands for the rest.
type metaTxn struct {
	tkv.Transaction
	txn kv.Txn
	// pkg/structure does not close its iterators, so closeIters does.
	iters []kv.Iterator
}

func (t *metaTxn) SetOption(int, any)                       {}
func (t *metaTxn) SetDiskFullOpt(level kvrpcpb.DiskFullOpt) {}
func (t *metaTxn) StartTS() uint64                          { return t.txn.StartTS() }

func (t *metaTxn) Get(ctx context.Context, k tkv.Key) ([]byte, error) {
	v, err := t.txn.Get(ctx, k)
	if errors.Is(err, kv.ErrNotExist) {
		return nil, tkv.ErrNotExist
	}
	return v, err
}

func (t *metaTxn) Set(k tkv.Key, v []byte) error { return t.txn.Set(k, v) }
func (t *metaTxn) Delete(k tkv.Key) error        { return t.txn.Delete(k) }

func (t *metaTxn) Iter(k, upperBound tkv.Key) (tkv.Iterator, error) {
	return t.track(t.txn.Iter(kv.KeyRange{Start: k, End: upperBound}))
}

// IterReverse starts below k. Metadata readers give no lower bound and stop by
// themselves, so the iterator is bounded by the metadata prefix.
func (t *metaTxn) IterReverse(k, lowerBound tkv.Key) (tkv.Iterator, error) {
	if lowerBound == nil {
		lowerBound = metaPrefix
	}
	return t.track(t.txn.IterReverse(kv.KeyRange{Start: lowerBound, End: k}))
}

func (t *metaTxn) track(it kv.Iterator, err error) (tkv.Iterator, error) {
	if err != nil {
		return nil, err
	}
	t.iters = append(t.iters, it)
	return metaIter{it}, nil
}

func (t *metaTxn) closeIters() error {
	var errs []error
	for _, it := range t.iters {
		errs = append(errs, it.Close())
	}
	t.iters = nil
	return errors.Join(errs...)
}

// metaIter is a kv.Iterator as TiDB knows it; closeIters closes it.
type metaIter struct{ kv.Iterator }

func (it metaIter) Key() tkv.Key { return it.Iterator.Key() }
func (it metaIter) Close()       {}
