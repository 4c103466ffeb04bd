package report

import (
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"fastddl/benchmarks/result"
)

// palette is Okabe and Ito's, which people see apart also if they do not see all colours.
var palette = []color.Color{
	color.RGBA{R: 0xD5, G: 0x5E, A: 0xFF},
	color.RGBA{R: 0xE6, G: 0x9F, A: 0xFF},
	color.RGBA{G: 0x72, B: 0xB2, A: 0xFF},
	color.RGBA{R: 0x56, G: 0xB4, B: 0xE9, A: 0xFF},
	color.RGBA{G: 0x9E, B: 0x73, A: 0xFF},
	color.RGBA{R: 0xCC, G: 0x79, B: 0xA7, A: 0xFF},
}

func colour(i int) color.Color { return palette[i%len(palette)] }

func timePlot(rows int) string { return fmt.Sprintf("peers-time-%d.svg", rows) }

func loadPlot(share float64) string {
	return fmt.Sprintf("peers-load-%s.svg", strings.TrimSuffix(percent(share), "%"))
}

// WritePeerPlots writes the plots that Markdown links to into a folder.
func WritePeerPlots(res *result.Peers, dir string) error {
	f := figures{res}
	for _, rows := range res.Setup.Rows {
		if err := f.plotTime(filepath.Join(dir, timePlot(rows)), rows); err != nil {
			return err
		}
	}
	for _, share := range res.Setup.Shares {
		if err := f.plotLoad(filepath.Join(dir, loadPlot(share)), share); err != nil {
			return err
		}
	}
	return nil
}

const (
	plotWidth  = 24 * vg.Centimeter
	plotHeight = 12 * vg.Centimeter
)

// plotTime draws a group of bars for each case, a bar for each system.
func (f figures) plotTime(path string, rows int) error {
	p := newPlot()
	p.Title.Text = fmt.Sprintf("ADD INDEX alone, %s rows", thousands(rows))
	p.Y.Label.Text = "seconds"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, logTicks{}
	p.Add(horizontalLines())
	systems := f.measured()
	var titles []string
	for _, name := range f.Setup.Cases {
		titles = append(titles, caseTitle(name))
	}
	width := 0.8 / float64(max(1, len(systems)))
	for i, s := range systems {
		b := &bars{width: width, colour: colour(i)}
		for j, name := range f.Setup.Cases {
			if took := seconds(f.alone(s.Name, rows, name)); took.N > 0 {
				b.bars = append(b.bars, bar{x: float64(j) + width*(float64(i)-float64(len(systems)-1)/2), Spread: took})
			}
		}
		if len(b.bars) == 0 {
			continue
		}
		p.Add(b)
		p.Legend.Add(s.Title, b)
	}
	p.NominalX(titles...)
	p.X.Min, p.X.Max = -0.5, float64(len(titles))-0.5
	decades(&p.Y)
	// The legend lies above the bars and takes so much of their height.
	p.Y.Max *= math.Pow(p.Y.Max/p.Y.Min, 0.07*float64(len(systems)))
	return savePlots(path, plotWidth, plotHeight, p)
}

// plotLoad draws throughput over time, a panel for each system.
func (f figures) plotLoad(path string, share float64) error {
	var (
		panels []*plot.Plot
		end    float64
	)
	for i, s := range f.measured() {
		l := f.firstTimeline(s.Name, share)
		if l == nil {
			continue
		}
		p, err := loadPanel(l, s.Title, colour(i))
		if err != nil {
			return err
		}
		end = max(end, p.X.Max)
		panels = append(panels, p)
	}
	if len(panels) == 0 {
		panels = append(panels, newPlot())
		panels[0].Title.Text = "nothing was measured"
	}
	for _, p := range panels {
		p.X.Min, p.X.Max = 0, end
	}
	last := panels[len(panels)-1]
	last.X.Label.Text = "seconds; an index is being added where the ground is grey"
	return savePlots(path, plotWidth, vg.Length(len(panels))*4*vg.Centimeter, panels...)
}

// firstTimeline is the load of the first run that kept its course.
func (f figures) firstTimeline(system string, share float64) *result.Load {
	for _, r := range f.Runs {
		if r.System == system && r.Load != nil && r.Load.Share == share && len(r.Load.Timeline) > 0 {
			return r.Load
		}
	}
	return nil
}

// leastPerPoint is the least number of transactions per point of a timeline.
// With fewer, points would show noise.
const leastPerPoint = 10

func loadPanel(l *result.Load, title string, c color.Color) (*plot.Plot, error) {
	points := throughput(l.Timeline, l.BucketSeconds, l.PerSecond)
	p := newPlot()
	p.Title.Text = fmt.Sprintf("%s, at %.0f transactions/s (%s)", title, l.PerSecond, percent(l.Share))
	p.Y.Label.Text = "per second"
	for _, a := range l.Adding {
		p.Add(shade{from: a[0], to: a[1]})
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, fmt.Errorf("plot %s: %w", title, err)
	}
	line.Color, line.Width = c, vg.Points(1.5)
	p.Add(horizontalLines(), line)
	p.Y.Min, p.Y.Max = 0, 2*l.PerSecond
	return p, nil
}

// throughput turns counts into transactions per second.
func throughput(counts []int, bucket, perSecond float64) plotter.XYs {
	join := max(1, int(math.Ceil(leastPerPoint/(perSecond*bucket))))
	var points plotter.XYs
	for i := 0; i+join <= len(counts); i += join {
		sum := 0
		for _, n := range counts[i : i+join] {
			sum += n
		}
		span := float64(join) * bucket
		points = append(points, plotter.XY{X: float64(i)*bucket + span/2, Y: float64(sum) / span})
	}
	return points
}
