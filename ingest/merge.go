package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"fastddl/internal/invariants"
)

// merger merges cursors in key order with a loser tree: each step replaces the
// smallest entry by its successor from the same input and plays the matches on
// the path from that input's leaf to the root, one comparison per level.
//
//	winner      3
//	          /   \            tree[0] is the winner, tree[1..] the losers
//	        1       0          of the matches; the leaves are the inputs
//	       / \     / \
//	      0   1   2   3
//
// The keys at the heads are compared by the eight bytes behind what all keys of
// the merge have in common, and as a whole only where those are equal.
type merger struct {
	// only, if set, is the single input, whose entries need no comparison; inputs and tree are then unused.
	only *bucketCursor

	inputs []mergeInput
	tree   []int
	common int
	unique bool
	once   bool // see KeySpace.Once

	// The entry before the current one, if there is one (unique only).
	last        []byte
	lastValue   []byte
	lastPresent bool
	lastStored  bool
	// doubt looks up whether a stored entry that another one contradicts is the job's;
	// nil if the store's cursor returns only entries of the job.
	doubt *doubtfulCursor

	// group holds the duplicates with the key last that scan has read so far.
	group *DuplicateGroup
}

// errDuplicate says that two entries that are not the same have one key.
var errDuplicate = errors.New("ingest: duplicate key")

// mergeInput is the head of one cursor.
type mergeInput struct {
	cursor cursor
	batch  records
	at     int
	prefix uint64
	// stored marks entries that the store has already: they take part in the
	// search for duplicates and are not written again.
	stored bool
	done   bool
}

// newMerger returns a merger over the cursors, which it closes. All keys share
// their first common bytes. With unique set, equal keys are duplicates. The
// stored cursor, if any, reads what the store has already.
func newMerger(cursors []cursor, stored cursor, common int, unique bool) (*merger, error) {
	m := &merger{common: common, unique: unique}
	if len(cursors) == 1 && stored == nil && !unique {
		if only, ok := cursors[0].(*bucketCursor); ok {
			m.only = only
			return m, nil
		}
	}
	if stored != nil {
		m.doubt, _ = stored.(*doubtfulCursor)
		m.inputs = append(m.inputs, mergeInput{cursor: stored, stored: true})
	}
	for _, c := range cursors {
		m.inputs = append(m.inputs, mergeInput{cursor: c})
	}
	for i := range m.inputs {
		if err := m.inputs[i].refill(common); err != nil {
			return nil, errors.Join(err, m.close())
		}
	}
	m.build()
	return m, nil
}

func (m *merger) close() error {
	var errs []error
	if m.only != nil {
		errs = append(errs, m.only.close())
		m.only = nil
	}
	for i := range m.inputs {
		if c := m.inputs[i].cursor; c != nil {
			errs = append(errs, c.close())
			m.inputs[i].cursor = nil
		}
	}
	return errors.Join(errs...)
}

// next replaces the content of out by the next merged entries, each key with
// prefix before it; none left leaves it empty. It fails with errDuplicate before
// the second entry with a key; scan then goes on from there.
func (m *merger) next(ctx context.Context, prefix []byte, out *records) error {
	out.reset()
	out.prefix = prefix
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.only != nil {
		return m.only.next(out)
	}
	for out.len() < batchRecords && len(out.data) < batchBytes && len(m.inputs) > 0 {
		in := &m.inputs[m.tree[0]]
		if in.done {
			break
		}
		key, value := in.batch.key(in.at), in.batch.value(in.at)
		if m.unique {
			if err := m.checkDuplicate(ctx, key, value, in.stored); err != nil {
				return err
			}
		}
		if !in.stored {
			m.checkOrder(out, key)
			out.append(key, value)
		}
		if err := m.advance(in); err != nil {
			return err
		}
	}
	return nil
}

// checkOrder asserts that key may follow what is in out.
func (m *merger) checkOrder(out *records, key []byte) {
	if !invariants.Enabled || out.len() == 0 {
		return
	}
	last := out.key(out.len() - 1)[len(out.prefix):]
	c := bytes.Compare(last, key)
	invariants.Check(c < 0 || c == 0 && !m.unique, "entry %x is merged behind %x", key, last)
}

// checkDuplicate compares an entry with the one before it.
func (m *merger) checkDuplicate(ctx context.Context, key, value []byte, stored bool) error {
	repeated, err := m.repeats(ctx, key, value)
	switch {
	case err != nil:
		return err
	case !repeated:
		m.remember(key, value, stored)
		return nil
	case m.once:
		return errDuplicate
	case !bytes.Equal(m.lastValue, value):
		return errDuplicate
	}
	return m.again()
}

// repeats reports whether an entry has the key of the last one. A stored entry that is older
// than the job does not count: DML or another build wrote it.
func (m *merger) repeats(ctx context.Context, key, value []byte) (bool, error) {
	if !m.lastPresent || !bytes.Equal(m.last, key) {
		return false, nil
	}
	if m.doubt == nil || !m.lastStored || bytes.Equal(m.lastValue, value) {
		return true, nil
	}
	older, err := m.doubt.older(ctx, key)
	return !older, err
}

func (m *merger) remember(key, value []byte, stored bool) {
	m.last = append(m.last[:0], key...)
	m.lastValue = append(m.lastValue[:0], value...)
	m.lastPresent, m.lastStored = true, stored
}

// again accepts an entry that equals the last one, or fails. In a resumed job each entry may
// repeat one that the store has already. The stored entry is the first of the two, because
// its input is the first.
func (m *merger) again() error {
	if !m.lastStored {
		return fmt.Errorf("ingest: entry %x was added twice", m.last)
	}
	m.lastStored = false
	return nil
}

// scan continues where next has stopped, before a batch or with errDuplicate, and
// returns the groups of entries with equal keys that end among the next few
// entries. more reports whether entries are left. The groups' keys are without the
// index prefix.
func (m *merger) scan(ctx context.Context) (groups []*DuplicateGroup, more bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	for range batchRecords {
		if len(m.inputs) == 0 || m.inputs[m.tree[0]].done {
			return m.endGroup(groups), false, nil
		}
		in := &m.inputs[m.tree[0]]
		key, value := in.batch.key(in.at), in.batch.value(in.at)
		repeated, err := m.repeats(ctx, key, value)
		switch {
		case err != nil:
			return nil, false, err
		case repeated:
			err = m.joinGroup(value)
		default:
			groups = m.endGroup(groups)
			m.remember(key, value, in.stored)
		}
		if err != nil {
			return nil, false, err
		}
		if err := m.advance(in); err != nil {
			return nil, false, err
		}
	}
	return groups, true, nil
}

// joinGroup adds an entry with the last key to the group of that key.
func (m *merger) joinGroup(value []byte) error {
	if m.once {
		if m.group == nil {
			m.group = &DuplicateGroup{Key: bytes.Clone(m.last), Rows: 1}
			if len(m.lastValue) <= MaxEntrySize {
				m.group.Values = [][]byte{bytes.Clone(m.lastValue)}
			}
		}
		m.group.Rows++
		return nil
	}
	if bytes.Equal(m.lastValue, value) {
		return m.again()
	}
	if m.group == nil {
		m.group = NewDuplicateGroup(0, m.last, m.lastValue)
	}
	m.group.Add(value)
	return nil
}

// endGroup appends the group of the last key to groups, if it has one.
func (m *merger) endGroup(groups []*DuplicateGroup) []*DuplicateGroup {
	if m.group != nil {
		groups = append(groups, m.group)
		m.group = nil
	}
	return groups
}

// advance moves the winning input on and plays its matches again.
func (m *merger) advance(in *mergeInput) error {
	in.at++
	if in.at < in.batch.len() {
		in.prefix = loadPrefix(in.batch.key(in.at), m.common)
	} else if err := in.refill(m.common); err != nil {
		return err
	}
	winner := m.tree[0]
	for node := (winner + len(m.inputs)) / 2; node > 0; node /= 2 {
		if m.less(m.tree[node], winner) {
			winner, m.tree[node] = m.tree[node], winner
		}
	}
	m.tree[0] = winner
	return nil
}

func (in *mergeInput) refill(common int) error {
	in.at = 0
	if err := in.cursor.next(&in.batch); err != nil {
		return err
	}
	if in.batch.len() == 0 {
		in.done = true
		return nil
	}
	in.prefix = loadPrefix(in.batch.key(0), common)
	return nil
}

// build plays all matches.
func (m *merger) build() {
	k := len(m.inputs)
	if k == 0 {
		return
	}
	m.tree = make([]int, k)
	winners := make([]int, 2*k)
	for i := range k {
		winners[k+i] = i
	}
	for node := k - 1; node > 0; node-- {
		a, b := winners[2*node], winners[2*node+1]
		if m.less(b, a) {
			a, b = b, a
		}
		winners[node], m.tree[node] = a, b
	}
	if k > 1 {
		m.tree[0] = winners[1]
	}
}

// less orders the heads of two inputs by key, then by the inputs' order.
func (m *merger) less(a, b int) bool {
	x, y := &m.inputs[a], &m.inputs[b]
	if x.done || y.done {
		return !x.done
	}
	if x.prefix != y.prefix {
		return x.prefix < y.prefix
	}
	if c := bytes.Compare(x.batch.key(x.at), y.batch.key(y.at)); c != 0 {
		return c < 0
	}
	return a < b
}
