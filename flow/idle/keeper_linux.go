package idle

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"fastddl/internal/errs"
)

// Keeper observes a process and keeps its share in the processors at LeastShare or above. It is not safe for
// concurrent use.
type Keeper struct {
	watch  watch
	ladder Ladder
	knob   string
	notify func(Progress)
}

// NewKeeper returns a keeper of a process. notify, if not nil, is called by Run when the level or Starved changes.
func NewKeeper(pid int, notify func(Progress)) *Keeper {
	return &Keeper{watch: watch{tree: kernel, pid: pid}, notify: notify}
}

// Run observes the process each KeeperInterval, until the context or the process ends. It returns nil then, and else why it could
// not observe it.
func (k *Keeper) Run(ctx context.Context) (err error) {
	defer errs.Contain(&err)
	ticker := time.NewTicker(KeeperInterval)
	defer ticker.Stop()
	var last Progress
	for {
		p, err := k.Observe(time.Now())
		if hasEnded(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if k.notify != nil && (p.Level != last.Level || p.Starved != last.Starved) {
			k.notify(p)
		}
		last = p
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Observe takes a sample of the process and sets its level. It fails if the process has ended.
func (k *Keeper) Observe(now time.Time) (Progress, error) {
	s, err := k.watch.sample(now)
	if err != nil {
		return Progress{}, err
	}
	knob := k.watch.knobOf(k.watch.pid)
	if knob.name() != k.knob { // the first time, or the process has just joined its group
		if err := k.begin(knob); err != nil {
			return Progress{}, err
		}
	}
	before := k.ladder.level
	p := k.ladder.Observe(s)
	if err := k.apply(knob, before); err != nil {
		return Progress{}, err
	}
	p.Level, p.Top, p.Knob = k.ladder.level, k.ladder.top(), k.knob
	return p, nil
}

// begin begins with the level that is in force.
func (k *Keeper) begin(knob knob) error {
	level, err := knob.level()
	if err != nil {
		return err
	}
	k.knob, k.ladder = knob.name(), Ladder{level: level}
	threads, ok := knob.(threadsKnob)
	if !ok {
		return nil
	}
	err = threads.probe(level)
	if errors.Is(err, fs.ErrPermission) {
		// A lowered thread could not be raised again.
		k.ladder.refuse(level)
		k.ladder.floor = level
		return nil
	}
	return err
}

// apply sets the level that the ladder has decided on, or the highest below it that the kernel allows.
func (k *Keeper) apply(knob knob, before int) error {
	if k.ladder.level == before {
		return nil
	}
	for level := k.ladder.level; ; level-- {
		err := knob.set(level)
		switch {
		case errors.Is(err, unix.EAGAIN):
			k.ladder.moveTo(before) // the kernel limits how often autogroups change
			return nil
		case errors.Is(err, fs.ErrPermission) && level > before:
			k.ladder.refuse(level - 1)
		default:
			return err
		}
	}
}
