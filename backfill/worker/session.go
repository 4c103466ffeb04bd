package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"fastddl/backfill"
	"fastddl/event"
	"fastddl/flow"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

// errSilent says that a worker has sent nothing for too long.
var errSilent = errors.New("it has sent nothing for too long")

// session is the server's end of one build in a worker.
type session struct {
	*stream
	host      *Host
	work      backfill.IngestWork
	elsewhere *ingest.Elsewhere
	process   Process
	dir       string // of the job's files

	requests sync.WaitGroup
	// units are those of files that the worker has asked to import, by path: a request that is repeated is about the same units, of which
	// the store may have moved some.
	unitsMu sync.Mutex
	units   map[string]kv.ImportUnit
	// begun says that the worker has sent something, and overdue that it has sent nothing for a while.
	begun   bool
	overdue atomic.Bool
	stage   string
	// stageDone is how much of the stage is done, a float64.
	stageDone atomic.Value
}

// run has the worker do the work and waits until its process has ended, and all that was done for it. It fails with a *LostError if
// the worker has ended before it was done, and with the cause of ctx if that has ended: then the worker is ended at once, wherever it is.
func (s *session) run(parent context.Context, first *start) (d *done, err error) {
	ctx, cancel := context.WithCancelCause(parent)
	var helpers sync.WaitGroup
	end := func(cause error) {
		cancel(cause)
		s.process.Kill()
		_ = s.conn.Close() // what is being sent or received ends
	}
	stop := context.AfterFunc(ctx, func() { end(nil) })
	quiet := time.AfterFunc(s.host.opts.Silence, func() {
		s.overdue.Store(true)
		// This process may have been stopped, and messages be waiting.
		time.AfterFunc(s.host.opts.Silence/8, func() {
			if s.overdue.Load() {
				end(errSilent)
			}
		})
	})
	defer func() {
		quiet.Stop()
		s.overdue.Store(false)
		stop()
		end(err)
		helpers.Wait()
		s.requests.Wait()
		exit := s.process.Wait()
		left := s.discardUnits()
		defer func() { err = errs.Combine(err, left) }()
		switch {
		case err == nil:
		case parent.Err() != nil:
			err = context.Cause(parent)
		default:
			err = &LostError{JobID: s.work.JobID, Exit: exit, Err: context.Cause(ctx)}
		}
	}()
	defer errs.Contain(&err)
	if err := s.send(&toWorker{Start: first}); err != nil {
		return nil, err
	}
	helpers.Go(func() { s.follow(ctx, first.Limits) })
	for {
		m := new(fromWorker)
		if err := s.receive(m); err != nil {
			return nil, err
		}
		s.begun = true
		s.overdue.Store(false)
		quiet.Reset(s.host.opts.Silence)
		if m.Done != nil {
			return m.Done, nil
		}
		if err := s.take(ctx, m); err != nil {
			return nil, err
		}
	}
}

// follow sends what the build may use, whenever that changes.
func (s *session) follow(ctx context.Context, sent limits) {
	tick := time.NewTicker(limitsInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := s.host.limits(s.work)
		now.Parts.Limit(s.process.Share(now.Parts.Workers), flow.ProcessorQuota)
		if now == sent {
			continue
		}
		if s.send(&toWorker{Limits: &now}) != nil {
			return // the receiver meets it too
		}
		sent = now
	}
}

// take deals with one message of the worker.
func (s *session) take(ctx context.Context, m *fromWorker) error {
	switch {
	case m.Begun:
		s.host.opts.Logger.Info("a process builds index entries", zap.Int64("job", s.work.JobID), zap.String("yields by", s.process.YieldsBy()))
	case m.Event != nil:
		if e := m.Event.event(event.Job{ID: s.work.JobID}); e != nil {
			s.work.Options.Bus.Emit(e)
		}
	case m.Progress != nil:
		s.show(m.Progress)
	case m.Import != nil:
		s.answer(m.Import.ID, func() error { return s.importFiles(ctx, m.Import.Files) })
	case m.Save != nil:
		s.answer(m.Save.ID, func() error {
			err := s.work.Options.SaveCheckpoint(ctx, m.Save.Checkpoint)
			if err == nil {
				s.host.saved(s.work.JobID)
			}
			return err
		})
	default:
		return errors.New("a message of it is empty")
	}
	return nil
}

// show shows the progress of the worker as the build's.
func (s *session) show(p *progress) {
	s.stageDone.Store(p.Build.StageDone)
	s.work.Progress.Follow(p.Build)
	s.elsewhere.Report(p.Use)
	if p.Build.Stage != s.stage {
		s.stage = p.Build.Stage
		s.work.Enter(s.stage, func() float64 { return s.stageDone.Load().(float64) })
	}
}

// answer does what a request asks for, beside others, and answers it.
func (s *session) answer(id int64, do func() error) {
	s.requests.Go(func() {
		err := func() (err error) {
			defer errs.Contain(&err)
			return do()
		}()
		if err := s.send(&toWorker{Answer: &answer{id, newWireError(err)}}); err != nil {
			s.host.opts.Logger.Debug("a build worker could not be answered", zap.Int64("job", s.work.JobID), zap.Error(err))
		}
	})
}

// importFiles imports files of the worker.
func (s *session) importFiles(ctx context.Context, files []pebblekv.UnitFile) error {
	if err := kv.CheckPermit(ctx); err != nil {
		return err
	}
	units := make([]kv.ImportUnit, len(files))
	for i := range files {
		u, err := s.unit(&files[i])
		if err != nil {
			return err
		}
		units[i] = u
	}
	if err := s.host.opts.Store.Import(ctx, units); err != nil {
		return err
	}
	s.unitsMu.Lock()
	defer s.unitsMu.Unlock()
	for _, f := range files {
		delete(s.units, f.Path)
	}
	return nil
}

// unit returns the unit of a file that may be imported.
func (s *session) unit(f *pebblekv.UnitFile) (kv.ImportUnit, error) {
	if err := s.mayImport(f); err != nil {
		return nil, err
	}
	s.unitsMu.Lock()
	defer s.unitsMu.Unlock()
	if u := s.units[f.Path]; u != nil {
		return u, nil
	}
	u, err := s.host.opts.Store.Unit(*f)
	if err == nil {
		if s.units == nil {
			s.units = make(map[string]kv.ImportUnit)
		}
		s.units[f.Path] = u
	}
	return u, err
}

// discardUnits removes the files that the store has not taken, wherever they are.
func (s *session) discardUnits() (err error) {
	s.unitsMu.Lock()
	defer s.unitsMu.Unlock()
	for _, u := range s.units {
		err = errs.Combine(err, u.Discard())
	}
	return err
}

// mayImport says why a file is none of the build's.
func (s *session) mayImport(f *pebblekv.UnitFile) error {
	switch {
	case f.Path != filepath.Clean(f.Path) || filepath.Dir(f.Path) != filepath.Clean(s.dir):
		return fmt.Errorf("worker: %s is no file of job %d", f.Path, s.work.JobID)
	case f.Version != s.work.TS:
		return fmt.Errorf("worker: a file of job %d has version %d, not %d", s.work.JobID, f.Version, s.work.TS)
	}
	for _, r := range s.work.Ranges {
		if r.Contains(f.Start) && bytes.Compare(f.End, r.End) <= 0 {
			return nil
		}
	}
	return fmt.Errorf("worker: a file of job %d has keys %s, which are of no index that it builds", s.work.JobID, f.Keys())
}
