package bench

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"testing"
)

// Sizes of the chart in pixels.
const (
	chartWidth = 900
	barLeft    = 130 // right of the names of systems
	barMost    = 600
	barHeight  = 14
	barStep    = 18
	groupGap   = 38
)

// systemClasses are the classes of bars in chartStyle.
var systemClasses = map[string]string{
	ours: "a", ext4: "b", erofs: "c", squashfs: "d", squashfuse: "e", desync: "f", xetCore: "g", bare: "h",
}

// chartStyle has the colours of a light and a dark page. Our bars have the strongest one.
const chartStyle = `<style>
svg{--p:#fff;--t:#1e293b;--s:#5b6878;--l:#0f172a}
rect{fill:#94a3b8}.a{fill:#c2410c}.b{fill:#94a3b8}.c{fill:#64748b}.d{fill:#475569}.e{fill:#5b8fb9}.f{fill:#7aa874}.g{fill:#a78bba}.h{fill:#b0a58f}
.p{fill:var(--p)}text{fill:var(--t)}.s{fill:var(--s)}.w{font-weight:600}.n{text-anchor:end}path{stroke:var(--l);stroke-opacity:.6}.k{stroke-opacity:.15}
@media(prefers-color-scheme:dark){svg{--p:#14171a;--t:#e6e8ea;--s:#a3aeb8;--l:#fff}.a{fill:#f97316}.d{fill:#7f8ea3}}
</style>
`

// chart draws the rates, a group of bars for each line, longer is better. Bars of a group
// are relative to its longest; a thin line shows the least and the most.
func chart(all []line, title string) []byte {
	charted := slices.DeleteFunc(slices.Clone(all), func(l line) bool {
		return (l.Unit != "MB/s" && l.Unit != "/s") || l.Row == "P3" || l.Row == "P11"
	})
	var body bytes.Buffer
	y := 64
	for _, l := range charted {
		y = drawGroup(&body, l, y)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="system-ui, sans-serif" font-size="12">`+"\n", chartWidth, y)
	b.WriteString(chartStyle + `<rect class="p" width="100%" height="100%"/>` + "\n")
	drawText(&b, 20, 28, `font-size="18" class="w"`, "xetfs beside other file systems: longer is better")
	drawText(&b, 20, 46, `class="s"`, title)
	b.Write(body.Bytes())
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// drawGroup draws one line of the table from y on and returns where the next begins.
func drawGroup(w io.Writer, l line, y int) int {
	most := 0.0
	for _, s := range l.Systems {
		most = max(most, s.Most)
	}
	drawText(w, 20, y+14, `class="w"`, fmt.Sprintf("%s  %s, %s", l.Row, l.What, l.Unit))
	y += 22
	for _, system := range columns {
		s, ok := l.Systems[system]
		if !ok {
			continue
		}
		x := func(v float64) float64 { return barLeft + barMost*v/most }
		middle := float64(y) + barHeight/2
		drawText(w, barLeft-8, y+11, `class="n"`, system)
		fmt.Fprintf(w, `<rect x="%d" y="%d" width="%.1f" height="%d" rx="2" class="%s"/>`+"\n", barLeft, y, x(s.Median)-barLeft, barHeight, systemClasses[system])
		fmt.Fprintf(w, `<path d="M%.1f %.1fH%.1f"/>`+"\n", x(s.Least), middle, x(s.Most))
		label := number(s.Median)
		if s.Ratio > 0 {
			label += fmt.Sprintf(", xetfs ×%.2f", s.Ratio)
		}
		drawText(w, int(x(s.Most))+8, y+11, `class="s"`, label)
		y += barStep
	}
	return y + groupGap - 22
}

// drawText writes words at a place.
func drawText(w io.Writer, x, y int, attributes, words string) {
	fmt.Fprintf(w, `<text x="%d" y="%d" %s>%s</text>`+"\n", x, y, attributes, html.EscapeString(words))
}

// The chart is XML, and has a bar for each system of each rate.
func TestBenchChart(t *testing.T) {
	svg := chart(lines([]figure{
		{"P1", "text & more", "MB/s", ours, 0, 2000},
		{"P1", "text & more", "MB/s", squashfs, 0, 1000},
		{"P1", "text & more", "s/GB", ours, 0, 1},
	}), "a machine")
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(string(svg), `rx="2"`); got != 2 {
		t.Errorf("%d bars, want 2:\n%s", got, svg)
	}
}
