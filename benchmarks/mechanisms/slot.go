package mechanisms

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fastddl/benchmarks/result"
	"fastddl/benchmarks/usage"
	"fastddl/internal/sleep"
	"fastddl/internal/stats"
	"fastddl/sbtest"
)

// visit measures a variant beside each load, in the given order.
func (r *run) visit(ctx context.Context, s Server, v *variant, loads []int, round int) error {
	impossible, err := v.place(ctx, s)
	if err != nil {
		return err
	}
	if impossible != "" {
		r.skip(v.worker, impossible)
		return nil
	}
	if err := r.warmUp(ctx, s); err != nil {
		return err
	}
	for _, i := range loads {
		if err := usage.WaitIdle(ctx, s.PID(), r.IdleTime); err != nil {
			return err
		}
		slot, err := r.slot(ctx, s, v, r.Shares[i])
		if err != nil {
			return err
		}
		slot.Round = round
		r.report(slot)
		r.res.Slots = append(r.res.Slots, slot)
		r.list()
		if err := r.Save(r.res); err != nil {
			return err
		}
	}
	return nil
}

// skip notes why all variants of a place are skipped.
func (r *run) skip(worker, reason string) {
	for _, v := range r.variants {
		if v.worker == worker {
			v.Skipped = reason
			r.say("%s: skipped: %s", v.Name, reason)
		}
	}
}

// slot measures a variant beside a load of a share of the capacity. Its error is one of the server; one of a build
// is in the slot.
func (r *run) slot(ctx context.Context, s Server, v *variant, share float64) (result.FlowSlot, error) {
	slot := result.FlowSlot{Variant: v.Name, Share: share, PerSecond: r.res.Capacity}
	arriving := 0.0
	if share > 0 {
		slot.PerSecond *= share
		arriving = slot.PerSecond
	}
	var err error
	slot.During, err = r.beside(ctx, s, arriving, func(d *sbtest.Driver) error {
		if v.Kind == result.FlowQuiet {
			return sleep.Wait(ctx, r.SlotTime)
		}
		return r.builds(ctx, s, d, &slot)
	})
	var failed *failedTransactions
	if errors.As(err, &failed) {
		slot.Errors, err = failed.Error(), nil
	}
	return slot, err
}

// builds adds and drops the index for the time of a slot.
func (r *run) builds(ctx context.Context, s Server, d *sbtest.Driver, slot *result.FlowSlot) error {
	begin := d.Elapsed()
	for {
		last := d.Elapsed() - begin
		if last >= r.MaxSlotTime || last >= r.SlotTime && len(slot.BuildSeconds) >= r.Builds {
			return nil
		}
		start := d.Elapsed()
		err := r.addIndex(ctx, s)
		took := d.Elapsed() - start
		if dropErr := s.DropIndex(ctx, r.index); dropErr != nil {
			return fmt.Errorf("drop the index: %w", errors.Join(dropErr, err))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			slot.Failed = err.Error()
			return nil
		}
		slot.BuildSeconds = append(slot.BuildSeconds, took.Seconds())
	}
}

// failedTransactions is the error of a load in which some failed.
type failedTransactions struct{ err error }

func (f *failedTransactions) Error() string { return "transactions failed: " + f.err.Error() }

// beside calls fn beside a load, and returns what the load was answered meanwhile. 0 transactions per second are a closed loop.
func (r *run) beside(ctx context.Context, s Server, perSecond float64, fn func(*sbtest.Driver) error) (sbtest.LatencySummary, error) {
	d, err := sbtest.Start(ctx, sbtest.Options{Dial: s.Session, Threads: r.Threads, PerSecond: perSecond, Rows: r.Rows, Seed: r.Seed})
	if err != nil {
		return sbtest.LatencySummary{}, err
	}
	err = sleep.Wait(ctx, r.RampUp)
	during := sbtest.Interval{From: d.Elapsed()}
	if err == nil {
		err = fn(d)
	}
	during.To = d.Elapsed()
	record := d.Stop(stopGrace)
	if err == nil && record.Err() != nil {
		err = &failedTransactions{record.Err()}
	}
	return record.Summary(during), err
}

func (r *run) report(slot result.FlowSlot) {
	load := "closed loop"
	if slot.Share > 0 {
		load = fmt.Sprintf("%.0f%% (%.0f/s)", 100*slot.Share, slot.PerSecond)
	}
	r.say("%s, %s: p50 %.1f, p99 %.1f, mean %.1f ms, %.1f transactions/s; %d builds, median %.2f s", slot.Variant, load,
		slot.During.P50, slot.During.P99, slot.During.Mean, slot.During.PerSecond, len(slot.BuildSeconds), stats.Median(slot.BuildSeconds))
	for _, problem := range []string{slot.Failed, slot.Errors} {
		if problem != "" {
			r.say("%s, %s: %s", slot.Variant, load, problem)
		}
	}
	if took := time.Duration(slot.During.Seconds * float64(time.Second)); took > r.MaxSlotTime {
		r.say("%s, %s: the last build ended after %v", slot.Variant, load, took.Round(time.Second))
	}
}
