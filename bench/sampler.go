package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/shirou/gopsutil/v3/process"
)

// sampleEvery is short against a build and long against a look.
const sampleEvery = 10 * time.Millisecond

// peaks are the highest values seen while something ran.
type peaks struct {
	rssBytes  uint64
	tempBytes int64
}

// sampler takes the peaks of this process' memory and of a temp folder.
type sampler struct {
	self    *process.Process
	tempDir string
	peaks
}

func newSampler(tempDir string) (*sampler, error) {
	self, err := process.NewProcess(int32(os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("watch the process: %w", err)
	}
	return &sampler{self: self, tempDir: tempDir}, nil
}

// look takes one sample.
func (s *sampler) look() error {
	memory, err := s.self.MemoryInfo()
	if err != nil {
		return fmt.Errorf("read the memory in use: %w", err)
	}
	s.rssBytes = max(s.rssBytes, memory.RSS)
	bytes, err := folderBytes(s.tempDir)
	s.tempBytes = max(s.tempBytes, bytes)
	return err
}

// watch samples until the returned function is called, which returns the peaks.
func watch(tempDir string) (stop func() (peaks, error), err error) {
	s, err := newSampler(tempDir)
	if err != nil {
		return nil, err
	}
	quit, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ticker := time.NewTicker(sampleEvery)
		defer ticker.Stop()
		for {
			err := s.look()
			select {
			case <-quit:
				ended <- err
				return
			case <-ticker.C:
			}
			if err != nil {
				<-quit
				ended <- err
				return
			}
		}
	}()
	return func() (peaks, error) {
		close(quit)
		err := <-ended
		return s.peaks, err
	}, nil
}

// folderBytes is the size of all files below dir; files and folders may come
// and go meanwhile.
func folderBytes(dir string) (int64, error) {
	var total int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				total += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", dir, err)
	}
	return total, nil
}
