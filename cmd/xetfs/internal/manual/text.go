package manual

import (
	"strings"
	"unicode/utf8"
)

// minColumn is the least width of wrapped text, in columns.
const minColumn = 20

// Text returns blocks as plain text of at most width columns. Code and words longer than a line
// are not wrapped. Text below a heading is indented by two columns.
func Text(blocks []Block, width int) string {
	var b strings.Builder
	indent := ""
	for i, block := range blocks {
		if i > 0 && !(block.kind == item && blocks[i-1].kind == item) {
			b.WriteString("\n")
		}
		if block.kind == heading {
			b.WriteString(headingText(block))
			indent = "  "
			continue
		}
		for _, line := range block.format(max(minColumn, width-len(indent))) {
			b.WriteString(strings.TrimRight(indent+line, " ") + "\n")
		}
	}
	return b.String()
}

func headingText(h Block) string {
	if h.level == 1 {
		return strings.ToUpper(plain(h.text)) + "\n"
	}
	return plain(h.text) + "\n"
}

// format returns the lines of a block that is no heading.
func (b Block) format(width int) []string {
	switch b.kind {
	case code:
		lines := make([]string, len(b.lines))
		for i, l := range b.lines {
			lines[i] = "  " + l
		}
		return lines
	case item:
		return hang("* ", wrap(plain(b.text), width-2))
	case table:
		return tableText(b.rows, width)
	}
	return wrap(plain(b.text), width)
}

// hang puts a mark before the first line, and as many spaces before the others.
func hang(mark string, lines []string) []string {
	for i := range lines {
		if i == 0 {
			lines[i] = mark + lines[i]
		} else {
			lines[i] = strings.Repeat(" ", utf8.RuneCountInString(mark)) + lines[i]
		}
	}
	return lines
}

// wrap returns the lines of a text.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}

// tableText returns a table. The last column is wrapped, all others are as wide as their cells.
func tableText(rows [][]string, width int) (lines []string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(plain(cell)))
		}
	}
	for i, row := range rows {
		mark := ""
		for j, cell := range row[:len(row)-1] {
			cell = plain(cell)
			mark += cell + strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell)+2)
		}
		last := plain(row[len(row)-1])
		if i == 0 && strings.TrimSpace(mark+last) == "" {
			continue // a heading without text
		}
		lines = append(lines, hang(mark, wrap(last, max(minColumn, width-utf8.RuneCountInString(mark))))...)
	}
	return lines
}

// Definitions returns terms and their meanings in two columns, indented by two columns.
func Definitions(rows [][2]string, width int) string {
	var b strings.Builder
	cells := [][]string{{"", ""}} // no heading
	for _, row := range rows {
		cells = append(cells, row[:])
	}
	for _, line := range tableText(cells, width-2) {
		b.WriteString("  " + line + "\n")
	}
	return b.String()
}
