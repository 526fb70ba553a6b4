package bench

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/codec/codectest"
)

// maxChart bounds the published chart, in bytes.
const maxChart = 50_000

// publishedCell is a cell of a table. It has the median, the least and the most of all rounds,
// and the ratio of xetfs to the system.
var publishedCell = regexp.MustCompile(`^([0-9.]+) \(([0-9.]+) - ([0-9.]+)\)(?: ×([0-9.]+))?$`)

// publishedRun returns a table in results.md, and the machine of its run.
func publishedRun(t *testing.T, name string) (all []line, machine string) {
	t.Helper()
	b, err := os.ReadFile("results.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "<!-- "+name+" -->")
	text, _, _ = strings.Cut(text, "<!-- end of "+name+" -->")
	var systems []string
	var facts []string
	for row := range strings.Lines(text) {
		if fact, ok := strings.CutPrefix(row, "* "); ok {
			facts = append(facts, strings.TrimSpace(fact))
		}
		cells := strings.Split(row, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case len(cells) < 6:
		case slices.Contains(cells, ours):
			systems = cells
		case strings.HasPrefix(cells[1], "P"):
			all = append(all, publishedLine(systems, cells))
		}
	}
	if len(all) == 0 || len(facts) < 2 {
		t.Fatal("results.md has no table")
	}
	date, _, _ := strings.Cut(facts[0], ", go")
	hardware, _, _ := strings.Cut(facts[1], ", SHA")
	return all, date + ", " + hardware
}

func publishedLine(systems, cells []string) line {
	l := line{Row: cells[1], What: cells[2], Unit: cells[3], Systems: map[string]spread{}}
	for i, cell := range cells {
		m := publishedCell.FindStringSubmatch(cell)
		if m == nil {
			continue
		}
		var n [4]float64
		for j := range n {
			n[j], _ = strconv.ParseFloat(m[j+1], 64) // an absent ratio is 0
		}
		l.Systems[systems[i]] = spread{Median: n[0], Least: n[1], Most: n[2], Ratio: n[3]}
	}
	return l
}

// TestBenchPublishedChart compares bench.svg with the table of the last run. GOLDEN=update draws
// it again. It has the cold reads beside peers, so that a page can show all of it.
func TestBenchPublishedChart(t *testing.T) {
	all, machine := publishedRun(t, "bench-mount.md")
	all = slices.DeleteFunc(all, func(l line) bool { return !slices.Contains([]string{"P1", "P2", "P4"}, l.Row) })
	svg := chart(all, machine)
	if len(svg) > maxChart {
		t.Errorf("the chart has %d bytes, %d are allowed", len(svg), maxChart)
	}
	codectest.Golden(t, "bench.svg", svg)
}

// TestBenchPublishedCurves compares growth.svg with row P18 of its own run. GOLDEN=update draws it
// again.
func TestBenchPublishedCurves(t *testing.T) {
	all, machine := publishedRun(t, "growth.md")
	codectest.Golden(t, "growth.svg", curves(all, machine))
}
