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

// watch looks at the process' memory and at the temp folder from outside until
// the returned function is called, which returns the peaks.
func watch(tempDir string) (stop func() (peaks, error), err error) {
	self, err := process.NewProcess(int32(os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("watch the process: %w", err)
	}
	var (
		p     peaks
		quit  = make(chan struct{})
		ended = make(chan error, 1)
	)
	look := func() error {
		memory, err := self.MemoryInfo()
		if err != nil {
			return fmt.Errorf("read the memory in use: %w", err)
		}
		p.rssBytes = max(p.rssBytes, memory.RSS)
		bytes, err := folderBytes(tempDir)
		p.tempBytes = max(p.tempBytes, bytes)
		return err
	}
	go func() {
		ticker := time.NewTicker(sampleEvery)
		defer ticker.Stop()
		for {
			err := look()
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
		return p, err
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
