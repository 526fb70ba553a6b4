package bench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A figure is what one round of one row gave for one system.
type figure struct {
	Row    string  `json:"row"` // P1 and so on
	What   string  `json:"what"`
	Unit   string  `json:"unit"`
	System string  `json:"system"`
	Round  int     `json:"round"`
	Value  float64 `json:"value"`
}

// A spread is all rounds of one row for one system.
type spread struct {
	Least  float64 `json:"least"`
	Median float64 `json:"median"`
	Most   float64 `json:"most"`
	Ratio  float64 `json:"ratio,omitempty"` // our median divided by this one; 0 for ourselves
	Rounds int     `json:"rounds"`
}

// A line is one row of the table.
type line struct {
	Row     string            `json:"row"`
	What    string            `json:"what"`
	Unit    string            `json:"unit"`
	Systems map[string]spread `json:"systems"`
	Targets []verdict         `json:"targets,omitempty"`
}

// results collects figures, and says on what machine.
type results struct {
	Machine machine  `json:"machine"`
	Lines   []line   `json:"lines"`
	Figures []figure `json:"figures"`
}

func newResults(t *testing.T) *results {
	t.Helper()
	return &results{Machine: thisMachine(t)}
}

func (r *results) add(f figure) { r.Figures = append(r.Figures, f) }

// lines brings figures together, in the order of rows and, within a row, of measuring.
func lines(figures []figure) []line {
	var all []line
	for _, f := range figures {
		same := func(l line) bool { return l.Row == f.Row && l.What == f.What && l.Unit == f.Unit }
		if !slices.ContainsFunc(all, same) {
			all = append(all, line{Row: f.Row, What: f.What, Unit: f.Unit, Systems: map[string]spread{}})
		}
	}
	for _, l := range all {
		for _, system := range columns {
			if s := spreadOf(figures, l, system); s.Rounds > 0 {
				l.Systems[system] = s
			}
		}
		for system, s := range l.Systems {
			if mine, ok := l.Systems[ours]; ok && system != ours && s.Median > 0 {
				s.Ratio = mine.Median / s.Median
				l.Systems[system] = s
			}
		}
	}
	slices.SortStableFunc(all, func(a, b line) int { return cmp.Or(len(a.Row)-len(b.Row), cmp.Compare(a.Row, b.Row)) })
	for i := range all {
		all[i].Targets = judge(all[i])
	}
	return all
}

// spreadOf is the least, the median and the most of one row of one system.
func spreadOf(figures []figure, l line, system string) spread {
	var values []float64
	for _, f := range figures {
		if f.Row == l.Row && f.What == l.What && f.Unit == l.Unit && f.System == system {
			values = append(values, f.Value)
		}
	}
	if len(values) == 0 {
		return spread{}
	}
	slices.Sort(values)
	n := len(values)
	return spread{Least: values[0], Median: (values[(n-1)/2] + values[n/2]) / 2, Most: values[n-1], Rounds: n}
}

// TestBenchMerge reports several runs of one commit as one run with all of their rounds.
func TestBenchMerge(t *testing.T) {
	if *benchMerge == "" {
		t.Skip("only with -bench-merge")
	}
	var all results
	paths := strings.Split(*benchMerge, ",")
	for i, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var one results
		if err := json.Unmarshal(b, &one); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if i == 0 {
			all.Machine = one.Machine
			all.Machine.Command += fmt.Sprintf(", %d times", len(paths))
		} else {
			all.Machine.Load += "; " + one.Machine.Load
		}
		if one.Machine.Commit != all.Machine.Commit {
			t.Fatalf("%s is of commit %s, not %s", path, one.Machine.Commit, all.Machine.Commit)
		}
		all.Figures = append(all.Figures, one.Figures...)
	}
	all.write(t, "bench-mount")
}

// report prints the table and writes all results to files NAME.*.
func (r *results) report(t *testing.T, name string) {
	t.Helper()
	r.Machine.Command = fmt.Sprintf("make %s BENCH_MIB=%d BENCH_ROUNDS=%d", name, *benchMiB, *benchRounds)
	r.Machine.end(t)
	r.write(t, name)
	t.Logf("all this took %v; text, Markdown, JSON and chart are in integration/bench/results",
		time.Since(r.Machine.start).Round(time.Second))
}

func (r *results) write(t *testing.T, name string) {
	t.Helper()
	r.Lines = lines(r.Figures)
	text := r.Machine.String() + "\n" + textTable(grid(r.Lines))
	t.Logf("medians (least - most), and our median divided by that of the other\n%s", text)
	if *benchOut == "" {
		return
	}
	b, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	write := func(kind string, b []byte) error {
		return os.WriteFile(filepath.Join(*benchOut, name+"."+kind), b, 0o644)
	}
	err = errors.Join(
		os.MkdirAll(*benchOut, 0o755),
		write("json", append(b, '\n')),
		write("txt", []byte(text)),
		write("md", []byte(r.Machine.String()+"\n"+markdownTable(grid(r.Lines)))),
		write("svg", chart(r.Lines, r.Machine.title())),
	)
	if svg := curves(r.Lines, r.Machine.title()); svg != nil && err == nil {
		err = write("growth.svg", svg)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// number prints three digits, and all digits of large numbers.
func number(v float64) string {
	switch {
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
