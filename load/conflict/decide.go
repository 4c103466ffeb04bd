package conflict

import "crypto/sha256"

// decision compares the rows that have a key with a shared hash, in the order of the file.
type decision struct {
	s      *Spool
	owners map[string]*owner // by key
	state  int64             // bytes of what owners hold, about
}

// owner is a row that stays so far.
type owner struct {
	row  int64
	keys []string
	// content is the same of rows with equal values.
	content [sha256.Size]byte
}

// bytesOfOwner and bytesOfKey are about what an owner, and each of its keys, takes beside the key's bytes.
const (
	bytesOfOwner = 128
	bytesOfKey   = 64
)

// row decides about the row that was read last.
func (d *decision) row(row Row) error {
	var keys []int // with shared hashes, in the order in which TiDB looks at them
	for i, p := range row.Pairs {
		if _, unique := d.s.opts.Unique(p.Key); !unique {
			continue
		}
		if _, shared := d.s.shared[d.s.hash(p.Key)]; shared {
			keys = append(keys, i)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	stays := false
	if d.s.opts.Policy == First {
		stays = d.first(row, keys)
	} else {
		stays = d.last(row, keys)
	}
	if !stays || row.Rejected {
		return nil
	}
	return d.own(row, keys)
}

// own enters a row that stays so far.
func (d *decision) own(row Row, keys []int) error {
	o := &owner{row: d.s.at - 1, content: d.content(row)}
	for _, i := range keys {
		key := string(row.Pairs[i].Key)
		o.keys = append(o.keys, key)
		d.owners[key] = o
	}
	d.state += o.bytes()
	if d.state+d.s.sharedBytes() > d.s.opts.MaxState {
		return errTooMany.FastGenByArgs(d.s.opts.MaxState >> 20)
	}
	return nil
}

func (o *owner) bytes() int64 {
	n := int64(bytesOfOwner)
	for _, key := range o.keys {
		n += bytesOfKey + int64(len(key))
	}
	return n
}

// drop drops the row that was read last.
func (d *decision) drop(row Row) {
	if !row.Rejected {
		d.s.result.Affected--
	}
	d.s.dropped.set(d.s.at - 1)
}

// first drops a row if one before it has one of its keys, as TiDB's batchCheckAndInsert does without replace.
func (d *decision) first(row Row, keys []int) (stays bool) {
	for _, i := range keys {
		p := row.Pairs[i]
		if d.owners[string(p.Key)] == nil {
			continue
		}
		d.drop(row)
		d.s.result.Copied--
		if len(d.s.result.Warnings) < d.s.opts.MaxWarnings {
			index, _ := d.s.opts.Unique(p.Key)
			d.s.result.Warnings = append(d.s.result.Warnings, d.s.opts.Exists(index, p.Key, p.Value))
		}
		return false
	}
	return true
}

// last drops the rows before that have one of a row's keys, as batchCheckAndInsert does with replace: an equal row stays instead of the
// new one. TiDB counts a row that was replaced for its primary key as deleted, and one for another key as affected.
func (d *decision) last(row Row, keys []int) (stays bool) {
	for _, i := range keys {
		old := d.owners[string(row.Pairs[i].Key)]
		if old == nil {
			continue
		}
		index, _ := d.s.opts.Unique(row.Pairs[i].Key)
		if old.content == d.content(row) {
			d.drop(row)
			if index != 0 {
				d.s.result.Copied--
				d.s.result.Affected++
			}
			return false
		}
		for _, key := range old.keys {
			delete(d.owners, key)
		}
		d.state -= old.bytes()
		d.s.dropped.set(old.row)
		if index == 0 {
			d.s.result.Deleted++
		} else {
			d.s.result.Affected++
		}
	}
	return true
}

// content returns a hash of the row's values. They are in the record's value, and in its key if that is unique.
func (d *decision) content(row Row) [sha256.Size]byte {
	h := sha256.New()
	if _, unique := d.s.opts.Unique(row.Pairs[0].Key); unique {
		h.Write(row.Pairs[0].Key)
	}
	h.Write(row.Pairs[0].Value)
	return [sha256.Size]byte(h.Sum(nil))
}
