package model

// Point is a measured point.
type Point struct {
	Name string
	// Commit was measured.
	Commit string
	// Of is the measured quantity: seconds, bytes, or processor seconds.
	Of       Quantity
	Measured float64
	Build    Build
	Cluster  Cluster
	// Half says that the point is the middle of a build with an empty block cache and one with a full one.
	Half bool
	// Unexplained is why the point is not within a quarter; empty if it must be.
	Unexplained string
}

// Quantity is a quantity that the model gives.
type Quantity string

// The quantities.
const (
	Seconds  Quantity = ""
	Memory   Quantity = "MiB of memory"
	Temp     Quantity = "MiB of temp"
	OfNode   Quantity = "CPU s of the node"
	OfStores Quantity = "CPU s of TiKV"
	// OfEngine is OfStores with what compaction takes later.
	OfEngine Quantity = "CPU s of TiKV, compaction included"
)

// Modelled is what the model gives for the point.
func (p *Point) Modelled() float64 {
	if !p.Half {
		return p.of(p.Cluster)
	}
	cold := p.Cluster
	cold.Cold = true
	return (p.of(p.Cluster) + p.of(cold)) / 2
}

func (p *Point) of(c Cluster) float64 {
	e := Estimate(p.Build, c)
	switch p.Of {
	case Memory:
		return e.Memory / mib
	case Temp:
		return e.Temp / mib
	case OfNode:
		return e.NodeCPU
	case OfStores:
		return e.StoreCPU
	case OfEngine:
		return e.StoreCPU + e.Compacted*tikvRewrite.Value*nano*c.Slowness
	default:
		return e.Seconds()
	}
}

// Ratio is the modelled to the measured.
func (p *Point) Ratio() float64 { return p.Modelled() / p.Measured }

// Points returns the measured points.
func Points() []Point {
	var all []Point
	all = append(all, embeddedPoints()...)
	all = append(all, standInPoints()...)
	return append(all, tikvPoints()...)
}

func embeddedPoints() []Point {
	const million = 1e6
	unique := sysbench(2*million, onIntID)
	unique.CompareAll = true
	points := []Point{
		{Name: "INT, 2 million, quiet", Commit: "d50c9f6", Measured: 0.42, Build: sysbench(2*million, onInt), Cluster: pebble(quietHour)},
		{Name: "INT, one row", Commit: "d50c9f6", Measured: 0.02, Build: sysbench(1, onInt), Cluster: pebble(quietHour)},
		{Name: "INT, 2 million", Commit: "879bf06", Measured: 0.61, Build: sysbench(2*million, onInt), Cluster: pebble(hourOfPeers)},
		{Name: "CHAR(120), 2 million", Commit: "879bf06", Measured: 1.60, Build: sysbench(2*million, onChar), Cluster: pebble(hourOfPeers)},
		{Name: "(k, c(20)), 2 million", Commit: "879bf06", Measured: 0.98, Build: sysbench(2*million, onIntPrefix), Cluster: pebble(hourOfPeers)},
		{Name: "unique, 2 million, all compared", Commit: "879bf06", Measured: 1.23, Build: unique, Cluster: pebble(hourOfPeers)},
		{Name: "eight narrow ones, 2 million", Commit: "879bf06", Measured: 6.24, Build: sysbench(2*million, eight()...), Cluster: pebble(hourOfPeers)},
		{Name: "INT, 10 million", Commit: "879bf06", Measured: 3.64, Build: sysbench(10*million, onInt), Cluster: pebble(hourOfPeers)},
		{Name: "INT, 2 million, in memory", Commit: "24737a7", Measured: 0.553, Build: sysbench(2*million, onInt), Cluster: pebble(hourOfCounting)},
		{Name: "unique, 2 million, in memory", Commit: "2975529", Measured: 0.61, Build: sysbench(2*million, onIntID), Cluster: pebble(hourOfCounting)},
	}
	for _, w := range []struct{ workers, seconds float64 }{{1, 0.68}, {2, 0.74}, {4, 0.99}} {
		c := pebble(hourOfPeers)
		c.Workers = w.workers
		points = append(points, Point{Name: "INT, 2 million, " + many(w.workers, "worker") + ", two builds", Commit: "879bf06", Measured: w.seconds, Build: sysbench(2*million, onInt), Cluster: c, Half: true})
	}
	for _, s := range []struct{ rows, seconds, memory, temp float64 }{
		{1, 0.49, 625, 10}, {2, 0.87, 875, 20}, {5, 1.65, 1563, 50}, {10, 3.73, 2633, 100}, {20, 10.34, 5076, 207},
	} {
		name, b, c := "INT, "+count(s.rows)+" million, two builds", sysbench(s.rows*million, onInt), pebble(hourOfPeers)
		why := ""
		if s.rows == 20 {
			why = "the first of its builds took 14.0 s, the second 6.7: the table is as large as the block cache"
		}
		points = append(points,
			Point{Name: name, Commit: "879bf06", Measured: s.seconds, Build: b, Cluster: c, Half: true, Unexplained: why},
			Point{Name: name, Commit: "879bf06", Of: Memory, Measured: s.memory, Build: b, Cluster: c},
			Point{Name: name, Commit: "879bf06", Of: Temp, Measured: s.temp, Build: b, Cluster: c})
	}
	large := pebble(hourOfCounting)
	large.Cold = true
	slow := large
	slow.StoreRead = 400e6
	small := slow
	small.NodeMemory = 4 * gib
	return append(points,
		Point{Name: "INT, 100 million, 1.8 GB/s", Commit: "24737a7", Measured: 42.1, Build: sysbench(100*million, onInt), Cluster: large},
		Point{Name: "the same", Commit: "24737a7", Of: Memory, Measured: 5.7e9 / mib, Build: sysbench(100*million, onInt), Cluster: large},
		Point{Name: "the same", Commit: "24737a7", Of: Temp, Measured: 2.7e9 / mib, Build: sysbench(100*million, onInt), Cluster: large},
		Point{Name: "the same, 400 MB/s", Commit: "24737a7", Measured: 67, Build: sysbench(100*million, onInt), Cluster: slow},
		Point{Name: "unique, 40 million, 400 MB/s, 4 GB", Commit: "2975529", Measured: 27.2, Build: sysbench(40*million, onIntID), Cluster: small})
}

func standInPoints() []Point {
	points := []Point{}
	for _, s := range []struct {
		commit                  string
		slowness, rows, latency float64
		requests, seconds       float64
	}{
		{"288f25f", hourOfPeers, 0.2, 0, 4, 0.28}, {"288f25f", hourOfPeers, 1, 0, 4, 0.79},
		{"288f25f", hourOfPeers, 1, 0.01, 4, 1.02}, {"288f25f", hourOfPeers, 1, 0.05, 4, 1.77},
		{"d50c9f6", quietHour, 0.2, 0, 1, 0.16}, {"d50c9f6", quietHour, 1, 0, 1, 0.55}, {"6b8a2cf", hourOfPeers, 1, 0.05, 1, 2.53},
	} {
		c := standIn(s.slowness, s.rows*1e6, s.latency)
		c.Requests = s.requests
		points = append(points, Point{
			Name:   "stand-in, " + count(s.rows*1e6) + " rows, " + count(s.latency*1000) + " ms late, " + count(s.requests) + " under way",
			Commit: s.commit, Measured: s.seconds, Build: sysbench(s.rows*1e6, onInt), Cluster: c,
		})
	}
	for _, s := range []struct {
		commit, column                  string
		rows, nodes, requests, pageRows float64
		seconds                         float64
	}{
		{"a5a0725", "MEDIUMTEXT", 300, 1, 2, 150, 127.5}, {"a5a0725", "MEDIUMTEXT", 300, 3, 2, 150, 51.1},
		{"799d5d4", "MEDIUMTEXT", 180, 1, 2, 150, 78.2}, {"799d5d4", "MEDIUMTEXT", 180, 3, 2, 150, 32.4},
		{"799d5d4", "VARCHAR(8000)", 180, 1, 4, 4 * mib / 7000, 17.2}, {"799d5d4", "VARCHAR(8000)", 180, 3, 4, 4 * mib / 7000, 12.3},
		{"d50c9f6", "VARCHAR(8000)", 180, 1, 1, 150, 126.2}, {"d50c9f6", "VARCHAR(8000)", 180, 3, 1, 150, 45.9},
		{"6d5aff8", "MEDIUMTEXT", 180, 1, 1, 150, 127.0}, {"6d5aff8", "MEDIUMTEXT", 180, 3, 1, 150, 52.0},
		{"775ca9a", "MEDIUMTEXT", 40, 1, 1, 150, 31.1}, {"775ca9a", "MEDIUMTEXT", 40, 3, 1, 150, 14.3},
		{"5087382", "MEDIUMTEXT", 60, 1, 1, 150, 46.3}, {"5087382", "MEDIUMTEXT", 60, 3, 1, 150, 19.1},
		{"5087382", "MEDIUMTEXT", 20, 1, 1, 150, 18.0}, {"5087382", "MEDIUMTEXT", 20, 3, 1, 150, 10.1},
	} {
		b, c := longValues(s.rows*1000, s.nodes, s.requests, s.pageRows)
		points = append(points, Point{
			Name:   s.column + ", " + count(s.rows*1000) + " rows, " + many(s.nodes, "node") + ", " + count(s.requests) + " under way",
			Commit: s.commit, Measured: s.seconds, Build: b, Cluster: c,
		})
	}
	for _, s := range []struct{ nodes, seconds float64 }{{1, 61.8}, {3, 28.0}} {
		b, c := longValues(40_000, s.nodes, 1, 150)
		b.CompareAll = true
		points = append(points, Point{Name: "MEDIUMTEXT, unique, 40,000 rows, " + many(s.nodes, "node"), Commit: "5fccb66", Measured: s.seconds, Build: b, Cluster: c})
	}
	return points
}

func tikvPoints() []Point {
	rows := 1_024_000.0
	one, single := oneTiKV(1), oneTiKV(1)
	single.Requests = 1
	compared := sysbench(rows, onIntID)
	compared.CompareAll = true
	points := []Point{
		{Name: "TiKV, INT", Commit: "288f25f", Measured: 2.15, Build: sysbench(rows, onInt), Cluster: one},
		{Name: "TiKV, INT", Commit: "288f25f", Of: OfStores, Measured: 3.2, Build: sysbench(rows, onInt), Cluster: one},
		{Name: "TiKV, INT", Commit: "288f25f", Of: OfNode, Measured: 0.7, Build: sysbench(rows, onInt), Cluster: one},
		{Name: "TiKV, unique", Commit: "288f25f", Measured: 2.5, Build: sysbench(rows, onIntID), Cluster: one},
		{Name: "TiKV, unique", Commit: "288f25f", Of: OfStores, Measured: 3.5, Build: sysbench(rows, onIntID), Cluster: one},
		{Name: "TiKV, unique", Commit: "288f25f", Of: OfNode, Measured: 0.7, Build: sysbench(rows, onIntID), Cluster: one},
		{Name: "TiKV, INT, 1 under way", Commit: "6b8a2cf", Measured: 2.4, Build: sysbench(rows, onInt), Cluster: single},
		{Name: "TiKV, unique, all read at T", Commit: "bbefdbd", Measured: 3.8, Build: compared, Cluster: single},
	}
	for _, s := range []struct {
		nodes        float64
		ordered      bool
		seconds, cpu float64
	}{{3, false, 10.4, 21.65}, {3, true, 10.5, 21.85}, {6, false, 11.6, 23.0}, {6, true, 11.0, 19.1}} {
		b, c := sysbench(2e6, onChar), oneTiKV(s.nodes)
		b.Ordered = s.ordered
		name := "TiKV, CHAR(120), 2 million, " + many(s.nodes, "node")
		if s.ordered {
			name += ", no overlap"
		}
		points = append(points, Point{Name: name, Commit: "6b8a2cf", Measured: s.seconds, Build: b, Cluster: c},
			Point{Name: name, Commit: "6b8a2cf", Of: OfEngine, Measured: s.cpu, Build: b, Cluster: c})
	}
	return points
}

// many prints a number of things.
func many(n float64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return count(n) + " " + thing + "s"
}

// Excluded is a measured point that the model does not have, and why.
type Excluded struct{ Point, Why string }

// ExcludedPoints returns them.
func ExcludedPoints() []Excluded {
	return []Excluded{
		{"builds beside statements: 2.70 s at 40% of the capacity, 1.96 s at 5%, 36.4 and 1.55 s beside updates", "the governor decides how much of the machine they get"},
		{"the first build after a load or a start: up to twice as long", "two points, cold and warm, are taken together; how cold is not known"},
		{"4.9 and 43.9 s, 3 and 13 imports with 512 MiB (e1e789c)", "before TiDB's SQL layer: other keys, other rows, another process"},
		{"7.1 to 16 and 5.8 to 6.2 s by five subtasks on one TiKV (2f009ef)", "subtasks were built and imported one after the other then, and TiKV refused files"},
		{"45 and 105 s with rows counted in a second reading; 46 to 83 s for a unique index of 40 million (7daadb0)", "that code is gone"},
		{"22.9 and 12.8 s by twelve subtasks (2f009ef), 44.9 s where one node compares (b887a17)", "the same"},
		{"2.5 to 6.3 s on one TiKV at 3f29ca2 to d8569bb and be7413b", "code that is gone, or other work on the machine"},
		{"4.9 to 7.6 s on one TiKV at 48509b5", "a TiKV that was built with less optimisation: 2.3 times the processor time"},
		{"25.8 and 5.6 s for rows of a megabyte (52fa2e0); 0.24 s for 200,000 rows (6f28678)", "other work on the machine"},
		{"seconds of other systems and of TiDB's own ways", "not this project's build"},
	}
}
