package ingest

import "sync"

// Settings are what one job may have, beside what the system variables say for
// all jobs. The zero value follows the variables.
type Settings struct {
	// Weight is the job's part where running jobs divide something; 0 is 1.
	Weight int64
	// Workers is the greatest number of workers, 1 to 256; 0 is
	// tidb_ddl_reorg_worker_cnt.
	Workers int
	// BatchRows goes before tidb_ddl_reorg_batch_size, 32 to 10240; 0 leaves it to
	// that.
	BatchRows int
	// WriteSpeed is a ceiling in bytes per second, within what the node may
	// write; 0 is none.
	WriteSpeed int64
}

// LiveSettings are settings that may change while their job runs. The zero value
// is ready to use, and all methods may be called concurrently.
type LiveSettings struct {
	mu       sync.Mutex
	value    Settings
	onChange func()
}

// Get returns the settings in force. A nil receiver has none of its own.
func (l *LiveSettings) Get() Settings {
	var s Settings
	if l != nil {
		l.mu.Lock()
		s = l.value
		l.mu.Unlock()
	}
	s.Weight = max(1, s.Weight)
	return s
}

// Set puts settings into force, at once.
func (l *LiveSettings) Set(s Settings) {
	l.mu.Lock()
	l.value = s
	changed := l.onChange
	l.mu.Unlock()
	if changed != nil {
		changed()
	}
}

// follow calls fn after each change; nil ends that.
func (l *LiveSettings) follow(fn func()) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onChange = fn
}
