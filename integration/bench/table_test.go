package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// grid is the table: a heading, a row for each line and a column for each system that
// was measured.
func grid(all []line) [][]string {
	present := slices.DeleteFunc(slices.Clone(columns), func(system string) bool {
		return !slices.ContainsFunc(all, func(l line) bool { _, ok := l.Systems[system]; return ok })
	})
	rows := [][]string{append(append([]string{"", "", ""}, present...), "targets")}
	for _, l := range all {
		row := []string{l.Row, l.What, l.Unit}
		for _, system := range present {
			row = append(row, cell(l.Systems[system]))
		}
		rows = append(rows, append(row, verdicts(l.Targets)))
	}
	return rows
}

func cell(s spread) string {
	if s.Rounds == 0 {
		return ""
	}
	text := fmt.Sprintf("%s (%s - %s)", number(s.Median), number(s.Least), number(s.Most))
	if s.Ratio > 0 {
		text += fmt.Sprintf(" ×%.2f", s.Ratio)
	}
	return text
}

// textTable lines columns up.
func textTable(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&line, "%-*s  ", widths[i], cell)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// markdownTable is the same to be pasted into a page.
func markdownTable(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|%s\n", strings.Repeat(" --- |", len(row)))
		}
	}
	return b.String()
}

// Figures of several rounds become lines with medians, ratios and verdicts.
func TestBenchTable(t *testing.T) {
	figures := []figure{
		{"P12", "start", "ms", ours, 0, 90},
		{"P1", "text, cold, in a row", "MB/s", ours, 0, 2100},
		{"P1", "text, cold, in a row", "MB/s", squashfs, 0, 1000},
		{"P1", "text, cold, in a row", "MB/s", erofs, 0, 4000},
		{"P1", "text, cold, in a row", "MB/s", ours, 1, 1900},
		{"P1", "text, cold, in a row", "MB/s", ours, 2, 2000},
	}
	const want = `|  |  |  | xetfs | EROFS lz4 | squashfs lz4 | targets |
| --- | --- | --- | --- | --- | --- | --- |
| P1 | text, cold, in a row | MB/s | 2000 (1900 - 2100) | 4000 (4000 - 4000) ×0.50 | 1000 (1000 - 1000) ×2.00 | 2.00 ≥ 1.3 of squashfs lz4; **0.50, not ≥ 0.7 of EROFS lz4** |
| P12 | start | ms | 90.0 (90.0 - 90.0) |  |  | **90.0, not ≤ 50** |
`
	if got := markdownTable(grid(lines(figures))); got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
}
