package idle

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"
)

// watch measures the processor time of a process and the time that its threads waited for it.
type watch struct {
	tree
	pid     int
	at      time.Time
	ran     time.Duration
	threads map[int]threadTimes
}

// threadTimes are the times of a thread so far.
type threadTimes struct {
	run, wait time.Duration
	// runnable says that it ran or waited when it was looked at.
	runnable bool
}

// sample returns what the process did since the last sample. The first returns nothing. It fails if the process has ended.
func (w *watch) sample(now time.Time) (ShareSample, error) {
	ran, err := cpuTime(w.pid)
	if err != nil {
		return ShareSample{}, err
	}
	tasks, err := w.tasks(w.pid)
	if err != nil {
		return ShareSample{}, err
	}
	s := ShareSample{Elapsed: now.Sub(w.at), Run: ran - w.ran}
	seen := make(map[int]threadTimes, len(tasks))
	for _, tid := range tasks {
		times, err := w.thread(tid)
		if hasEnded(err) {
			continue
		}
		if err != nil {
			return ShareSample{}, fmt.Errorf("read the times of thread %d: %w", tid, err)
		}
		seen[tid] = times
		s.Wait += waited(w.threads[tid], times, s.Elapsed)
	}
	first := w.threads == nil
	w.at, w.ran, w.threads = now, ran, seen
	if first {
		return ShareSample{}, nil
	}
	return s, nil
}

// waited returns how long a thread waited for a processor between two looks. The kernel adds a time of waiting when it ends, so
// that a thread which starves for seconds shows no change at all, but in its state.
func waited(before, after threadTimes, elapsed time.Duration) time.Duration {
	if before.runnable && after.runnable && before == after {
		return elapsed
	}
	return min(after.wait-before.wait, elapsed)
}

// thread returns the times of a thread. Where the kernel does not account for waiting it is known only by state.
func (w *watch) thread(tid int) (times threadTimes, err error) {
	dir := w.proc(w.pid, "task", strconv.Itoa(tid))
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return times, err
	}
	// tid (name) R ...: the name may have parentheses
	if end := bytes.LastIndexByte(stat, ')'); end >= 0 && end+2 < len(stat) {
		times.runnable = stat[end+2] == 'R'
	}
	text, err := os.ReadFile(dir + "/schedstat")
	if errors.Is(err, fs.ErrNotExist) {
		return times, nil
	}
	if err != nil {
		return times, err
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return times, fmt.Errorf("schedstat is %q", text)
	}
	run, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return times, err
	}
	wait, err := strconv.ParseInt(string(fields[1]), 10, 64)
	times.run, times.wait = time.Duration(run), time.Duration(wait)
	return times, err
}
