package bench

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Sizes of the curves in pixels.
const (
	curvesHeight = 470
	plotLeft     = 80
	plotTop      = 70
	plotWidth    = 520
	plotHeight   = 350
	labelStep    = 16
)

// growthWhat is a line of P18: what was measured, and the number of shards or versions beside it.
var growthWhat = regexp.MustCompile(`^(.+?)(?:,| beside) ([0-9]+) (shards|versions)$`)

// A curve is the time of a command in stores of several sizes.
type curve struct {
	name   string
	sizes  []float64
	values []float64 // milliseconds, medians
}

// growthCurves returns the curves of row P18.
func growthCurves(all []line) []curve {
	byName := map[string]curve{}
	for _, l := range all {
		m := growthWhat.FindStringSubmatch(l.What)
		s, ok := l.Systems[ours]
		if l.Row != "P18" || l.Unit != "ms" || m == nil || !ok || s.Median <= 0 {
			continue
		}
		size, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			continue
		}
		c := byName[m[1]]
		c.name = fmt.Sprintf("%s (%s)", m[1], m[3])
		c.sizes, c.values = append(c.sizes, size), append(c.values, s.Median)
		byName[m[1]] = c
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b curve) int {
		return cmp.Or(cmp.Compare(slices.Max(b.values), slices.Max(a.values)), cmp.Compare(a.name, b.name))
	})
}

// axis is a logarithmic scale of whole decades in pixels.
type axis struct{ first, last, from, to float64 }

func axisOf(values []float64, from, to float64) axis {
	a := axis{math.Floor(math.Log10(slices.Min(values))), math.Ceil(math.Log10(slices.Max(values))), from, to}
	a.last = max(a.last, a.first+1)
	return a
}

// at returns the place of a value.
func (a axis) at(v float64) float64 {
	return a.from + (a.to-a.from)*(math.Log10(v)-a.first)/(a.last-a.first)
}

// decades yields the powers of ten of the axis.
func (a axis) decades(yield func(float64) bool) {
	for e := a.first; e <= a.last; e++ {
		if !yield(math.Pow(10, e)) {
			return
		}
	}
}

// curves draws row P18: the time of each command by the size of its store, both logarithmic. nil: there
// is no such row.
func curves(all []line, title string) []byte {
	drawn := growthCurves(all)
	if len(drawn) == 0 {
		return nil
	}
	var sizes, values []float64
	for _, c := range drawn {
		sizes, values = append(sizes, c.sizes...), append(values, c.values...)
	}
	x, y := axisOf(sizes, plotLeft, plotLeft+plotWidth), axisOf(values, plotTop+plotHeight, plotTop)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="system-ui, sans-serif" font-size="12">`+"\n", chartWidth, curvesHeight)
	b.WriteString(chartStyle + `<rect class="p" width="100%" height="100%"/>` + "\n")
	drawText(&b, 20, 28, `font-size="18" class="w"`, "Time by the size of the store: lower is better")
	drawText(&b, 20, 46, `class="s"`, title)
	for v := range x.decades {
		fmt.Fprintf(&b, `<path d="M%.1f %dV%d" class="k"/>`+"\n", x.at(v), plotTop, plotTop+plotHeight)
		drawText(&b, int(x.at(v)), plotTop+plotHeight+18, `class="s" text-anchor="middle"`, fmt.Sprintf("%g", v))
	}
	drawText(&b, plotLeft+plotWidth/2, plotTop+plotHeight+38, `class="s" text-anchor="middle"`, "shards or versions")
	for v := range y.decades {
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" class="k"/>`+"\n", plotLeft, y.at(v), plotLeft+plotWidth)
		drawText(&b, plotLeft-8, int(y.at(v))+4, `class="s n"`, fmt.Sprintf("%g ms", v))
	}
	free := 0.0
	for i, c := range drawn {
		free = max(free, y.at(c.values[len(c.values)-1]))
		drawCurve(&b, c, i, x, y, free)
		free += labelStep
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// drawCurve draws a curve in one of the colours of bars, and its name at a height.
func drawCurve(w io.Writer, c curve, i int, x, y axis, height float64) {
	class := string(rune('a' + i%len(systemClasses)))
	var points []string
	for j := range c.sizes {
		points = append(points, fmt.Sprintf("%.1f %.1f", x.at(c.sizes[j]), y.at(c.values[j])))
		fmt.Fprintf(w, `<rect x="%.1f" y="%.1f" width="7" height="7" class="%s"/>`+"\n", x.at(c.sizes[j])-3.5, y.at(c.values[j])-3.5, class)
	}
	fmt.Fprintf(w, `<path d="M%s" fill="none" stroke-width="1.5"/>`+"\n", strings.Join(points, "L"))
	last := c.values[len(c.values)-1]
	fmt.Fprintf(w, `<rect x="%d" y="%.1f" width="9" height="9" class="%s"/>`+"\n", plotLeft+plotWidth+18, height-5, class)
	drawText(w, plotLeft+plotWidth+34, int(height)+4, `class="s"`, fmt.Sprintf("%s: %s", c.name, milliseconds(last)))
}

// milliseconds prints a time.
func milliseconds(v float64) string {
	if v >= 1000 {
		return number(v/1000) + " s"
	}
	return number(v) + " ms"
}

// The curves are XML, and have a path and as many marks as sizes for each command.
func TestBenchCurves(t *testing.T) {
	var all []figure
	for _, size := range []int{10, 1000, 100_000} {
		all = append(all, figure{"P18", fmt.Sprintf("publish & more beside %d shards", size), "ms", ours, 0, float64(20 + size)},
			figure{"P18", fmt.Sprintf("history, %d versions", size), "ms", ours, 0, float64(size)},
			figure{"P18", fmt.Sprintf("history, %d versions: peak memory", size), "MiB", ours, 0, 20})
	}
	svg := curves(lines(all), "a machine")
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if paths, marks := strings.Count(string(svg), "L"), strings.Count(string(svg), `width="7"`); paths != 4 || marks != 6 {
		t.Errorf("%d segments and %d marks, want 4 and 6:\n%s", paths, marks, svg)
	}
	if curves(lines([]figure{{"P1", "text", "MB/s", ours, 0, 1}}), "") != nil {
		t.Error("there are curves without row P18")
	}
}
