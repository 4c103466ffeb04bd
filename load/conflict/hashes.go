package conflict

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"slices"

	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/util/dbterror"
)

// hashParts is in how many parts the hashes of keys are divided. A part is sorted in memory: 8 bytes for each of its keys.
const hashParts = 256

// part are the hashes that begin with the same byte.
type part struct {
	hashes []uint64
	file   *os.File // nil if all are in memory
	n      int      // in the file
}

func (s *Spool) hash(key []byte) uint64 {
	if s.opts.oneHash {
		return 0
	}
	return maphash.Bytes(s.seed, key)
}

// addHash adds the hash of a unique key of a row.
func (s *Spool) addHash(h uint64) error {
	p := &s.parts[h>>56]
	p.hashes = append(p.hashes, h)
	if len(p.hashes) < s.opts.hashesInMemory {
		return nil
	}
	if err := s.occupy(int64(8 * len(p.hashes))); err != nil {
		return err
	}
	return p.spill(s.opts.Dir)
}

func (p *part) spill(dir string) (err error) {
	if p.file == nil {
		if p.file, err = Unnamed(dir); err != nil {
			return err
		}
	}
	b := make([]byte, 0, 8*len(p.hashes))
	for _, h := range p.hashes {
		b = binary.LittleEndian.AppendUint64(b, h)
	}
	if _, err := p.file.Write(b); err != nil {
		return fmt.Errorf("conflict: write hashes: %w", err)
	}
	p.n += len(p.hashes)
	p.hashes = p.hashes[:0]
	return nil
}

// all returns the hashes of the part, sorted.
func (p *part) all() ([]uint64, error) {
	hashes := p.hashes
	if p.file != nil {
		b := make([]byte, 8*p.n)
		if _, err := p.file.ReadAt(b, 0); err != nil && err != io.EOF {
			return nil, fmt.Errorf("conflict: read hashes: %w", err)
		}
		for i := range p.n {
			hashes = append(hashes, binary.LittleEndian.Uint64(b[8*i:]))
		}
	}
	slices.Sort(hashes)
	return hashes, nil
}

func (p *part) close() error {
	p.hashes = nil
	if p.file == nil {
		return nil
	}
	err := p.file.Close()
	p.file = nil
	return err
}

// errTooMany refuses files in which too many rows are in conflict.
var errTooMany = dbterror.ClassExecutor.NewStdErr(mysql.ErrNotSupportedYet,
	mysql.Message("LOAD DATA of a file of this size in which the rows with equal keys take more than %d MiB of memory is not supported: make the rows unique before, or load the file in parts", nil))

// sharedBytes is about what shared takes of memory.
func (s *Spool) sharedBytes() int64 {
	const bytesOfHash = 16
	return int64(len(s.shared)) * bytesOfHash
}

// findShared notes the hashes that come more than once.
func (s *Spool) findShared() error {
	s.shared = make(map[uint64]struct{})
	for i := range s.parts {
		hashes, err := s.parts[i].all()
		if err != nil {
			return err
		}
		for i := 1; i < len(hashes); i++ {
			if hashes[i] == hashes[i-1] {
				s.shared[hashes[i]] = struct{}{}
			}
		}
		if err := s.parts[i].close(); err != nil {
			return fmt.Errorf("conflict: close hashes: %w", err)
		}
		if s.sharedBytes() > s.opts.MaxState {
			return errTooMany.FastGenByArgs(s.opts.MaxState >> 20)
		}
	}
	return nil
}
