package stage

import "time"

// Stage is a part of an index build.
type Stage int

// The stages, in the order in which an entry passes through them.
const (
	Scan Stage = iota
	Encode
	Sort
	Spill
	Merge
	Write
	Ingest
	Verify
	// Idle is time in which a worker waits: for work, for a limit, for others.
	Idle

	Count
)

var names = [Count]string{"scan", "encode", "sort", "spill", "merge", "write", "ingest", "verify", "idle"}

func (s Stage) String() string { return names[s] }

// Cost is what a stage has taken, summed over the workers.
type Cost struct {
	Wall time.Duration
	CPU  time.Duration
}

// Costs is the cost of every stage.
type Costs [Count]Cost

// Add adds o to c.
func (c *Costs) Add(o *Costs) {
	for i := range c {
		c[i].Wall += o[i].Wall
		c[i].CPU += o[i].CPU
	}
}

// Clock charges the time of one goroutine to stages. The goroutine must be
// locked to its thread from Start to Stop.
type Clock struct {
	costs   Costs
	current Stage
	wall    time.Time
	cpu     time.Duration
}

// Start starts a clock in stage s.
func Start(s Stage) *Clock {
	return &Clock{current: s, wall: time.Now(), cpu: ThreadCPU()}
}

// Enter charges the time since the last call to the current stage, makes s the
// current one, and returns the stage that was left.
func (c *Clock) Enter(s Stage) Stage {
	wall, cpu := time.Now(), ThreadCPU()
	cost := &c.costs[c.current]
	cost.Wall += wall.Sub(c.wall)
	cost.CPU += cpu - c.cpu
	left := c.current
	c.current, c.wall, c.cpu = s, wall, cpu
	return left
}

// Stop charges the time since the last call and returns all costs.
func (c *Clock) Stop() *Costs {
	c.Enter(c.current)
	return &c.costs
}
