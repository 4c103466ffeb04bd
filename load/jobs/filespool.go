package jobs

import (
	"errors"
	"fmt"
	"io"
	"os"

	"fastddl/internal/errs"
	"fastddl/load/conflict"
)

// segmentBytes is how much of a spooled file is given back to the disk at a time, while it is read.
const segmentBytes = 256 << 20

// FileSpool keeps a client's file on disk until it is read, once, from its beginning. So an import whose rows the client sends does not wait
// for the client. It must be used by one goroutine at a time, be written before it is read, and be closed.
type FileSpool struct {
	dir      string
	occupy   func(bytes int64) error
	segments []*spoolSegment // what was not read
	reading  bool            // the first segment is read
}

// spoolSegment is a part of a file.
type spoolSegment struct {
	file *os.File
	size int64 // granted
}

// NewFileSpool returns a spool of an empty file in the folder of imports. Its bytes are taken from the disk quota.
func (j *Jobs) NewFileSpool() *FileSpool {
	return &FileSpool{dir: j.opts.TempDir, occupy: j.opts.Loader.Occupy}
}

// Write implements io.Writer. Its error is 1021 if the quota or the room on the disk is used up.
func (s *FileSpool) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		if len(s.segments) == 0 || s.last().size >= segmentBytes {
			file, err := conflict.Unnamed(s.dir)
			if err != nil {
				return n, err
			}
			s.segments = append(s.segments, &spoolSegment{file: file})
		}
		part := b[:min(int64(len(b)), segmentBytes-s.last().size)]
		if err := s.occupy(int64(len(part))); err != nil {
			return n, err
		}
		s.last().size += int64(len(part))
		if _, err := s.last().file.Write(part); err != nil {
			if errs.NoSpace(err) {
				return n, errDiskRoom.FastGenByArgs()
			}
			return n, fmt.Errorf("keep the file of LOAD DATA: %w", err)
		}
		n, b = n+len(part), b[len(part):]
	}
	return n, nil
}

func (s *FileSpool) last() *spoolSegment { return s.segments[len(s.segments)-1] }

// Read implements io.Reader. What was read is removed from the disk.
func (s *FileSpool) Read(b []byte) (int, error) {
	for len(s.segments) > 0 {
		first := s.segments[0]
		if !s.reading {
			if _, err := first.file.Seek(0, io.SeekStart); err != nil {
				return 0, fmt.Errorf("read the file of LOAD DATA: %w", err)
			}
			s.reading = true
		}
		n, err := first.file.Read(b)
		if err != nil && err != io.EOF {
			return n, fmt.Errorf("read the file of LOAD DATA: %w", err)
		}
		if n > 0 {
			return n, nil
		}
		s.segments, s.reading = s.segments[1:], false
		if err := s.remove(first); err != nil {
			return 0, err
		}
	}
	return 0, io.EOF
}

func (s *FileSpool) remove(segment *spoolSegment) error {
	return errors.Join(segment.file.Close(), s.occupy(-segment.size))
}

// Close implements io.Closer. Closing twice does nothing.
func (s *FileSpool) Close() (err error) {
	for _, segment := range s.segments {
		err = errors.Join(err, s.remove(segment))
	}
	s.segments = nil
	return err
}
