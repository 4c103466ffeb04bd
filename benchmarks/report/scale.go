package report

import (
	"fmt"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"fastddl/benchmarks/result"
	"fastddl/internal/stats"
)

const (
	scaleRowsPlot    = "scale-rows.svg"
	scaleWorkersPlot = "scale-workers.svg"
)

// ScaleMarkdown is the section about sizes and workers, with links to plots
// that lie in the folder plots, as seen from the document.
func ScaleMarkdown(res *result.Scale, plots string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s, %d cores, %d GiB of memory, Linux %s. fastddl %s, index `(%s)`, by `fastddl bench addindex`.\n\n",
		res.Machine.CPU, res.Machine.Cores, res.Machine.MemoryBytes>>30, res.Machine.Kernel, res.Version, res.Index)
	if !res.Complete {
		b.WriteString("*The run was broken off: not all points were measured.*\n\n")
	}
	fmt.Fprintf(&b, "### By rows, %d workers\n\n![Nanoseconds per row by the size of the table](%s/%s)\n\n", res.Machine.Cores, plots, scaleRowsPlot)
	b.WriteString(scaleTable(res.BySize))
	fmt.Fprintf(&b, "\n### By workers\n\n![Seconds by the number of workers](%s/%s)\n\n", plots, scaleWorkersPlot)
	b.WriteString(scaleTable(res.ByWorkers))
	return b.String()
}

func scaleTable(points []result.ScalePoint) string {
	t := newTable(0, "rows", "workers", "seconds", "ns per row", "CPU ns per row", "to the floor", "peak memory", "peak temp", "runs")
	for _, p := range points {
		took := scaleSpread(p, scaleSeconds)
		t.row(thousands(p.Rows), fmt.Sprint(p.Workers), inSeconds(took),
			fmt.Sprintf("%.0f", nanoseconds(took, p.Rows).Median),
			fmt.Sprintf("%.0f", nanoseconds(scaleSpread(p, scaleCPU), p.Rows).Median),
			times(stats.Ratio(took.Median, p.FloorSeconds)),
			mebibytes(scaleSpread(p, func(r result.ScaleRun) float64 { return float64(r.PeakRSSBytes) }).Max),
			mebibytes(scaleSpread(p, func(r result.ScaleRun) float64 { return float64(r.PeakTempBytes) }).Max),
			fmt.Sprint(took.N))
	}
	return t.String()
}

func scaleSeconds(r result.ScaleRun) float64 { return r.Seconds }
func scaleCPU(r result.ScaleRun) float64     { return r.CPUSeconds }

func scaleSpread(p result.ScalePoint, figure func(result.ScaleRun) float64) stats.Spread {
	values := make([]float64, len(p.Runs))
	for i, r := range p.Runs {
		values[i] = figure(r)
	}
	return stats.SpreadOf(values)
}

// nanoseconds turns seconds of a build into those per row.
func nanoseconds(s stats.Spread, rows int) stats.Spread {
	f := 1e9 / float64(rows)
	return stats.Spread{Median: s.Median * f, Min: s.Min * f, Max: s.Max * f, N: s.N}
}

// WriteScalePlots writes the plots that ScaleMarkdown links to into a folder.
func WriteScalePlots(res *result.Scale, dir string) error {
	if err := plotScaleRows(filepath.Join(dir, scaleRowsPlot), res); err != nil {
		return err
	}
	return plotScaleWorkers(filepath.Join(dir, scaleWorkersPlot), res)
}

func plotScaleRows(path string, res *result.Scale) error {
	p := newPlot()
	p.Title.Text = fmt.Sprintf("ADD INDEX (%s): cost per row, %d workers", res.Index, res.Machine.Cores)
	p.X.Label.Text, p.Y.Label.Text = "rows", "nanoseconds per row"
	p.X.Tick.Marker = rowTicks(res.BySize)
	if len(res.BySize) > 0 {
		p.X.Scale = plot.LogScale{}
	}
	p.Add(horizontalLines())
	var wall, cpu, floor series
	for _, point := range res.BySize {
		x := float64(point.Rows)
		wall.add(x, nanoseconds(scaleSpread(point, scaleSeconds), point.Rows))
		cpu.add(x, nanoseconds(scaleSpread(point, scaleCPU), point.Rows))
		floor.add(x, nanoseconds(stats.SpreadOf([]float64{point.FloorSeconds}), point.Rows))
	}
	if err := addSeries(p, []string{"wall", "CPU", "floor"}, wall, cpu, floor); err != nil {
		return err
	}
	fromZero(&p.Y)
	return savePlots(path, plotWidth, plotHeight, p)
}

func plotScaleWorkers(path string, res *result.Scale) error {
	p := newPlot()
	p.Title.Text = "ADD INDEX by workers"
	if len(res.ByWorkers) > 0 {
		p.Title.Text = fmt.Sprintf("ADD INDEX (%s) by workers, %s rows, %d cores", res.Index, thousands(res.ByWorkers[0].Rows), res.Machine.Cores)
	}
	p.X.Label.Text, p.Y.Label.Text = "workers", "seconds"
	p.Add(horizontalLines())
	var wall, ideal series
	var ticks []plot.Tick
	for _, point := range res.ByWorkers {
		x := float64(point.Workers)
		wall.add(x, scaleSpread(point, scaleSeconds))
		first := res.ByWorkers[0]
		gain := float64(min(point.Workers, res.Machine.Cores)) / float64(min(first.Workers, res.Machine.Cores))
		ideal.add(x, stats.SpreadOf([]float64{scaleSpread(first, scaleSeconds).Median / gain}))
		ticks = append(ticks, plot.Tick{Value: x, Label: fmt.Sprint(point.Workers)})
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	if err := addSeries(p, []string{"measured", "as the cores allow"}, wall, ideal); err != nil {
		return err
	}
	fromZero(&p.Y)
	return savePlots(path, plotWidth, plotHeight, p)
}

// fromZero makes an axis begin at 0 and leaves room for the legend above.
func fromZero(a *plot.Axis) {
	a.Min, a.Max = 0, 1.3*max(0, a.Max)
	if a.Max == 0 {
		a.Max = 1 // there are no data
	}
}

// rowTicks marks the sizes that were measured.
func rowTicks(points []result.ScalePoint) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, p := range points {
		ticks = append(ticks, plot.Tick{Value: float64(p.Rows), Label: thousands(p.Rows)})
	}
	return ticks
}

// series are points with their spread.
type series struct {
	plotter.XYs
	plotter.YErrors
}

func (s *series) add(x float64, y stats.Spread) {
	s.XYs = append(s.XYs, plotter.XY{X: x, Y: y.Median})
	s.YErrors = append(s.YErrors, struct{ Low, High float64 }{Low: y.Median - y.Min, High: y.Max - y.Median})
}

// addSeries draws lines with points; nothing of series that are empty.
func addSeries(p *plot.Plot, names []string, all ...series) error {
	for i, s := range all {
		if len(s.XYs) == 0 {
			continue
		}
		line, points, err := plotter.NewLinePoints(s.XYs)
		if err != nil {
			return fmt.Errorf("plot %s: %w", names[i], err)
		}
		errorBars, err := plotter.NewYErrorBars(s)
		if err != nil {
			return fmt.Errorf("plot %s: %w", names[i], err)
		}
		line.Color, line.Width = colour(2*i), vg.Points(1.5)
		points.Color, points.Shape, points.Radius = colour(2*i), draw.CircleGlyph{}, vg.Points(3)
		errorBars.Color = colour(2 * i)
		p.Add(line, points, errorBars)
		p.Legend.Add(names[i], line, points)
	}
	return nil
}
