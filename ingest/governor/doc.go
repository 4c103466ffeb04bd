// Package governor decides how much of the machine index builds may use beside
// the foreground, as pure code: signals and time go in, a decision comes out.
//
// Without foreground statements builds have everything. With them, each signal
// is turned into a pressure, of which 1 is the most that is tolerated:
//
//   - processors: how much longer the foreground needs because its threads wait for
//     a processor, as far as builds are to blame, which is in proportion to their
//     part of what all processors do: they give way neither to what the foreground
//     does to itself nor to other processes more than it helps. Compactions count
//     as builds, which most of them come from while one runs;
//   - commit latency: how much longer statements take because commits take longer
//     than when builds hardly run;
//   - the store's load: sublevels of L0, compaction debt, stalled writers.
//
// The greatest pressure moves the share of the machine that builds have: above 1
// it falls by a factor that grows with the pressure, well below 1 it rises
// slowly, and between it stays, so that it settles rather than swings. It never
// falls below a floor, which is the higher the less of the machine the foreground
// uses.
package governor
