package pebblekv

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// The engine's log and its manifest are sequences of records in blocks of 32 KiB. A
// record is cut into chunks, which do not cross blocks: a checksum, a length, a kind;
// in a log also the log's number, since files are used again, and how much of the log
// was known to be synced when the chunk was written. See the engine's package record.
const (
	logBlock = 32 << 10

	plainHeader    = 4 + 2 + 1
	numberedHeader = plainHeader + 4
	syncedHeader   = numberedHeader + 8

	// Kinds come in groups of four: whole record, first, middle and last part of one.
	plainChunks    = 1
	numberedChunks = 5
	syncedChunks   = 9
	chunkKinds     = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// logChunk is one chunk of a record.
type logChunk struct {
	size        int // with its header
	first, last bool
	synced      uint64 // 0 if the chunk does not say
}

// chunkState says what a place of a block holds.
type chunkState int

const (
	chunkGood chunkState = iota
	// chunkNone is where the rest of a block has no room for a chunk.
	chunkNone
	// chunkEnd is the mark at the end of a log that was closed.
	chunkEnd
	// chunkBad is anything else: damage, or what was there before the log.
	chunkBad
)

// logReader parses a log, or a manifest, which has no number.
type logReader struct {
	r      io.Reader
	number uint32
	plain  bool // a manifest
	buf    []byte
	block  int64 // the number of the block in buf
}

// next reads the next block, which is short at the end of the file.
func (l *logReader) next() error {
	if l.buf == nil {
		l.buf = make([]byte, logBlock)
		l.block = -1
	} else if len(l.buf) < logBlock {
		return io.EOF
	}
	n, err := io.ReadFull(l.r, l.buf[:logBlock])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	l.buf = l.buf[:n]
	l.block++
	return nil
}

func (l *logReader) offset(at int) int64 { return l.block*logBlock + int64(at) }

// parse parses the chunk at a place of the block.
func (l *logReader) parse(at int) (logChunk, chunkState) {
	b := l.buf[at:]
	if len(b) < plainHeader {
		if allZero(b) {
			return logChunk{}, chunkNone
		}
		return logChunk{}, chunkBad
	}
	kind := int(b[6])
	header, group := headerOf(kind)
	if header == 0 || group == plainChunks && !l.plain {
		if len(b) < syncedHeader && allZero(b) {
			return logChunk{}, chunkNone
		}
		return logChunk{}, chunkBad
	}
	size := header + int(binary.LittleEndian.Uint16(b[4:]))
	if size > len(b) || l.plain != (group == plainChunks) {
		return logChunk{}, chunkBad
	}
	if !l.plain {
		switch number := binary.LittleEndian.Uint32(b[plainHeader:]); {
		case number == l.number:
		case number == l.number+1 && kind == numberedChunks && allZero(b[:6]):
			return logChunk{}, chunkEnd
		default:
			return logChunk{}, chunkBad
		}
	}
	if binary.LittleEndian.Uint32(b) != chunkChecksum(b[6:size]) {
		return logChunk{}, chunkBad
	}
	c := logChunk{size: size, first: kind-group <= 1, last: (kind-group)%3 == 0}
	if group == syncedChunks {
		c.synced = binary.LittleEndian.Uint64(b[numberedHeader:])
	}
	return c, chunkGood
}

// headerOf returns the size of a chunk's header, 0 if there is no such kind, and the group
// that the kind belongs to.
func headerOf(kind int) (header, group int) {
	switch {
	case kind >= syncedChunks && kind < syncedChunks+chunkKinds:
		return syncedHeader, syncedChunks
	case kind >= numberedChunks && kind < numberedChunks+chunkKinds:
		return numberedHeader, numberedChunks
	case kind >= plainChunks && kind < plainChunks+chunkKinds:
		return plainHeader, plainChunks
	}
	return 0, 0
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// chunkChecksum is the checksum of all but the first six bytes of a chunk, changed so
// that a checksum in the data does not count as its own.
func chunkChecksum(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// logScan is the result of scanning a log or a manifest.
type logScan struct {
	// end is where the last record that can be read ends.
	end int64
	// closed says that the log ends with the mark of a log that was closed, or with
	// its file and a whole record.
	closed bool
	// behind counts the intact chunks, and records those that begin a record, behind the
	// first one that is not.
	behind, records int
	// lost says that what lies behind end was once on stable storage: it is damaged,
	// and not just the end of a log that was being written.
	lost bool
}

// scan reads the log as the engine does when it recovers it, and then searches what lies
// behind that for signs that the log was longer.
func (l *logReader) scan() (logScan, error) {
	var s logScan
	inRecord := false
	for {
		if err := l.next(); errors.Is(err, io.EOF) {
			s.closed = !inRecord
			return s, nil
		} else if err != nil {
			return s, err
		}
		for at := 0; at < len(l.buf); {
			c, state := l.parse(at)
			switch {
			case state == chunkNone:
				at = len(l.buf)
				continue
			case state == chunkEnd && !inRecord:
				s.closed = true
				return s, nil
			case state != chunkGood || c.first == inRecord:
				return s, l.scanBehind(&s, at)
			}
			at += c.size
			if inRecord = !c.last; c.last {
				s.end = l.offset(at)
			}
		}
	}
}

// scanBehind looks for intact chunks behind a damaged one at the place at.
//
// That they are there does not mean that something is lost: parts of the last write
// before a crash may have reached the disk in any order. Something is lost if
//
//   - a chunk says that more had been synced than can be read: the engine's own rule, or
//   - chunks were written after two more syncs: the second began after the first chunk
//     that is found here had been written, hence with everything before that. This holds
//     although the synced offset of chunks is too low, see logCheck. Or
//   - the log was closed, which syncs it.
//
// The checksum proves an intact chunk at any place. The mark of a log that was closed has
// none: eleven bytes of a record, or of the older log whose file this was, may look like it,
// as zeros and small numbers are frequent there. It counts where a chunk can begin, and at
// the end of the file.
func (l *logReader) scanBehind(s *logScan, at int) error {
	bad := uint64(l.offset(at))
	var syncs int
	var synced uint64
	begins := at + l.claimedSize(at) // where the chunk behind the damaged one begins, if its header is right
	for at++; ; at, begins = 0, 0 {
		for at < len(l.buf) {
			c, state := l.parse(at)
			switch {
			case state == chunkGood:
				s.behind++
				if c.first {
					s.records++
				}
				if s.behind == 1 || c.synced > synced {
					syncs, synced = syncs+1, c.synced
				}
				s.lost = s.lost || c.synced > bad || syncs > 2
				at += c.size
				begins = at
			case state == chunkEnd && (at == begins || len(l.buf) < logBlock && at+numberedHeader == len(l.buf)):
				s.lost = true
				return nil
			default:
				at++
			}
		}
		if err := l.next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// claimedSize is the size that the header of a damaged chunk gives it, 0 if it is none of
// this log's.
func (l *logReader) claimedSize(at int) int {
	b := l.buf[at:]
	if len(b) < syncedHeader {
		return 0
	}
	header, group := headerOf(int(b[6]))
	if header == 0 || group == plainChunks {
		return 0
	}
	size := header + int(binary.LittleEndian.Uint16(b[4:]))
	if size > len(b) || binary.LittleEndian.Uint32(b[plainHeader:]) != l.number {
		return 0
	}
	return size
}
