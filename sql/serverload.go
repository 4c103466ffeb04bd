package sql

import (
	"time"

	"go.uber.org/zap"

	"fastddl/flow"
	"fastddl/internal/errs"
)

// loadInterval is the time of a point of fastddl_server_load.
const loadInterval = 2 * time.Second

// observeLoad adds what the server does to a log, until end is called.
func (l *Layer) observeLoad(log *flow.LoadLog) (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	observe := func() (err error) {
		defer errs.Contain(&err)
		jobs := l.ddl.Unfinished()
		running, rows := 0, 0.0
		for _, j := range jobs {
			rows += j.RowsPerSecond
			if j.WaitReason == "" {
				running++
			}
		}
		log.Observe(time.Now(), l.opts.Foreground.Latencies(), l.opts.Foreground.Executing(), running, rows)
		return nil
	}
	go func() {
		defer close(ended)
		ticker := time.NewTicker(loadInterval)
		defer ticker.Stop()
		for {
			if err := observe(); err != nil {
				l.opts.Logger.Warn("the load of the server is not observed any more", zap.Error(err))
				return
			}
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}
