package report

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"fastddl/benchmarks/result"
	"fastddl/internal/stats"
)

// sansSerif is the typeface that texts are measured in; families are what a
// reader may have in its place, of the same widths first.
const (
	sansSerif = "Liberation Sans"
	families  = sansSerif + ",Arial,Helvetica,sans-serif"
)

func newPlot() *plot.Plot {
	plot.DefaultFont.Variant = "Sans"
	p := plot.New()
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.Padding, p.Legend.XOffs = vg.Millimeter, 2*vg.Millimeter
	return p
}

// savePlots writes plots below each other as one SVG, with their axes in line.
func savePlots(path string, width, height vg.Length, plots ...*plot.Plot) error {
	canvas := vgsvg.New(width, height)
	rows := make([][]*plot.Plot, len(plots))
	for i, p := range plots {
		rows[i] = []*plot.Plot{p}
	}
	tiles := draw.Tiles{Rows: len(plots), Cols: 1, PadY: vg.Millimeter * 3, PadTop: vg.Millimeter * 2, PadBottom: vg.Millimeter * 2,
		PadLeft: vg.Millimeter * 2, PadRight: vg.Millimeter * 4}
	for i, row := range plot.Align(rows, tiles, draw.New(canvas)) {
		plots[i].Draw(row[0])
	}
	var text strings.Builder
	if _, err := canvas.WriteTo(&text); err != nil {
		return fmt.Errorf("plot %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	svg := strings.ReplaceAll(text.String(), sansSerif, families)
	return result.WriteFile(path, []byte(svg))
}

func horizontalLines() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical.Color = nil
	return g
}

// decades widens an axis to whole powers of ten, of which there is at least one.
func decades(a *plot.Axis) {
	if a.Min > a.Max { // there are no data
		a.Min, a.Max = 1, 1
	}
	a.Min = math.Pow(10, math.Floor(math.Log10(a.Min)))
	a.Max = max(10*a.Min, math.Pow(10, math.Ceil(math.Log10(a.Max))))
}

// logTicks marks the powers of ten and, without a label, what is between.
type logTicks struct{}

func (logTicks) Ticks(low, high float64) (ticks []plot.Tick) {
	for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
		ticks = append(ticks, plot.Tick{Value: decade, Label: fmt.Sprintf("%g", decade)})
		for n := 2.0; n < 10; n++ {
			if n*decade <= high {
				ticks = append(ticks, plot.Tick{Value: n * decade})
			}
		}
	}
	return ticks
}

// bar is one bar, with a line from the lowest to the highest measurement.
type bar struct {
	x float64
	stats.Spread
}

// bars are bars of one colour that stand on the lower end of the axis, as they
// must on a logarithmic one.
type bars struct {
	bars   []bar
	width  float64
	colour color.Color
}

func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	for _, bar := range b.bars {
		left, right := toX(bar.x-b.width/2), toX(bar.x+b.width/2)
		fillRectangle(c, b.colour, left, toY(p.Y.Min), right, toY(bar.Median))
		if bar.N > 1 {
			c.StrokeLine2(draw.LineStyle{Color: color.Black, Width: vg.Points(1)}, toX(bar.x), toY(bar.Min), toX(bar.x), toY(bar.Max))
		}
	}
}

// DataRange is what the axes must show.
func (b *bars) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, ymin, xmax, ymax = math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, bar := range b.bars {
		xmin, xmax = min(xmin, bar.x-b.width/2), max(xmax, bar.x+b.width/2)
		ymin, ymax = min(ymin, bar.Min), max(ymax, bar.Max)
	}
	return xmin, xmax, ymin, ymax
}

// Thumbnail draws the bars' mark in the legend.
func (b *bars) Thumbnail(c *draw.Canvas) {
	fillRectangle(*c, b.colour, c.Min.X, c.Min.Y, c.Max.X, c.Max.Y)
}

// shade is a grey ground between two moments.
type shade struct {
	from, to float64
}

func (s shade) Plot(c draw.Canvas, p *plot.Plot) {
	toX, _ := p.Transforms(&c)
	fillRectangle(c, color.Gray{Y: 0xDD}, toX(s.from), c.Min.Y, toX(s.to), c.Max.Y)
}

func fillRectangle(c draw.Canvas, fill color.Color, left, bottom, right, top vg.Length) {
	c.FillPolygon(fill, []vg.Point{{X: left, Y: bottom}, {X: right, Y: bottom}, {X: right, Y: top}, {X: left, Y: top}})
}
