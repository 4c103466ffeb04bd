package ingest

import (
	"strconv"
	"time"

	"fastddl/config"
	"fastddl/flow"
)

// Parts are what a job may have of the resources now. They are plain data: another process may work for the job within them.
type Parts struct {
	// Workers is the number of workers, BatchRows the number of rows that each reads at a time.
	Workers, BatchRows int
	// MemoryQuota and DiskQuota are values of the variables of these names under which a job that is alone has the same memory and the
	// same part of the temp folder, in bytes.
	MemoryQuota, DiskQuota int64
	// OwnSpeed is the job's own ceiling of writing in bytes per second, NodeSpeed its part of the node's; 0 is no limit.
	OwnSpeed, NodeSpeed int64
	// Decision is the governor's; Governor says that jobs are governed.
	Decision flow.Decision
	Governor bool
}

// Parts returns what the job may have now.
func (s *Share) Parts() Parts {
	own, node := s.opts.Settings.Get().WriteSpeed, int64(0)
	if speed, limit := s.WriteSpeed(); limit == config.ReorgMaxWriteSpeed {
		node = speed
	}
	batch := s.BatchRows() / batchesAtATime
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return Parts{
		Workers: s.workers, BatchRows: batch, MemoryQuota: s.memoryPart / arenasPercent * 100, DiskQuota: s.runsPart / runsPercent * 100,
		OwnSpeed: own, NodeSpeed: node, Decision: s.r.governor.Decision(), Governor: s.r.globals.Bool(config.Governor),
	}
}

// Limit lowers the part of the time that workers may run to share, if it is not less already.
func (p *Parts) Limit(share float64, reason flow.Reason) {
	if share < p.Decision.Share {
		p.Decision.Share, p.Decision.Reason = share, reason
	}
}

// Apply puts the parts of a job that another process has begun into force, in globals and settings that the job alone follows.
func (p Parts) Apply(globals *config.Globals, settings *LiveSettings, r *Resources) error {
	settings.Set(Settings{WriteSpeed: p.OwnSpeed})
	r.governor.Impose(p.Decision)
	governor := "OFF"
	if p.Governor {
		governor = "ON"
	}
	if err := globals.Update(config.Governor, governor); err != nil {
		return err
	}
	for name, value := range map[string]int64{
		config.ReorgWorkerCount: int64(p.Workers), config.ReorgBatchSize: int64(p.BatchRows), config.ReorgMaxWriteSpeed: p.NodeSpeed,
		config.MemoryQuota: p.MemoryQuota, config.DiskQuota: p.DiskQuota,
	} {
		if err := globals.Update(name, strconv.FormatInt(value, 10)); err != nil {
			return err
		}
	}
	return nil
}

// Use is what a job holds of the resources in another process, and waits for there.
type Use struct {
	MemoryBytes, RunBytes, FileBytes int64
	// Throttled says that its writes wait for the speed. Wait names what it waits for, as in Allocation.
	Throttled bool
	Wait      string
}

// Use returns what the job with the given ID holds here, for the process that has the job's share; zero if it is not open.
func (r *Resources) Use(jobID int64) Use {
	s := r.find(jobID)
	if s == nil {
		return Use{}
	}
	u := Use{Throttled: s.throttle.Active(time.Now()), Wait: r.Allocation(jobID).Wait}
	r.mu.Lock()
	defer r.mu.Unlock()
	u.MemoryBytes, u.RunBytes, u.FileBytes = s.memory.now, s.runs, s.files
	return u
}

// Elsewhere says what a job holds in another process: it replaces what was said before.
type Elsewhere struct {
	share *Share
	use   Use
}

// BeginElsewhere has another process do the job's work until End.
func (s *Share) BeginElsewhere() *Elsewhere {
	e := &Elsewhere{share: s}
	s.r.mu.Lock()
	s.elsewhere = e
	s.r.mu.Unlock()
	s.r.rebalance()
	return e
}

// Report says what the job holds there now.
func (e *Elsewhere) Report(u Use) {
	s := e.share
	s.r.mu.Lock()
	memory := u.MemoryBytes - e.use.MemoryBytes
	s.memory.add(memory)
	s.r.memory.add(memory)
	s.addRunsLocked(u.RunBytes - e.use.RunBytes)
	s.addFilesLocked(u.FileBytes - e.use.FileBytes)
	e.use = u
	s.r.wakeLocked()
	admit := memory < 0 && s.r.anyWaitingLocked()
	s.r.mu.Unlock()
	if admit {
		s.r.rebalance()
	}
}

// End says that the job holds nothing there any more.
func (e *Elsewhere) End() {
	e.Report(Use{})
	e.share.r.mu.Lock()
	e.share.elsewhere = nil
	e.share.r.mu.Unlock()
	e.share.r.rebalance()
}
