package manual

import (
	"regexp"
	"strings"
)

// A Block is a part of a text.
type Block struct {
	kind  kind
	level int        // of a heading: 1 to 3
	text  string     // of a heading, paragraph or item: one line, with its marks
	lines []string   // of code, without their common indentation
	rows  [][]string // of a table; the first row is the heading, which may be empty
}

type kind int

const (
	paragraph kind = iota
	heading
	item
	code
	table
)

// Parse returns the blocks of a text.
func Parse(text string) []Block {
	p := parser{}
	for line := range strings.Lines(text) {
		p.line(strings.TrimRight(line, " \n"))
	}
	p.end()
	return p.blocks
}

// A parser collects lines of one block.
type parser struct {
	blocks []Block
	open   *Block // nil between two blocks
	fenced bool   // open is code between two fences
}

// line adds one line.
func (p *parser) line(line string) {
	trimmed := strings.TrimLeft(line, " ")
	switch {
	case strings.HasPrefix(trimmed, "```"):
		p.end()
		if p.fenced = !p.fenced; p.fenced {
			p.begin(Block{kind: code})
		}
	case p.fenced:
		p.open.lines = append(p.open.lines, line)
	case line == "" && p.open != nil && p.open.kind == code:
		p.open.lines = append(p.open.lines, "")
	case line == "":
		p.end()
	case line[0] == '#':
		p.end()
		text := strings.TrimLeft(line, "#")
		p.begin(Block{kind: heading, level: len(line) - len(text), text: strings.TrimSpace(text)})
		p.end()
	case strings.HasPrefix(line, "* "):
		p.end()
		p.begin(Block{kind: item, text: line[2:]})
	case line[0] == '|':
		p.row(line)
	case len(line)-len(trimmed) >= 2 && (p.open == nil || p.open.kind == code):
		p.begin(Block{kind: code})
		p.open.lines = append(p.open.lines, line)
	default:
		p.continued(trimmed, len(line) == len(trimmed))
	}
}

// continued adds a line to the open paragraph or item. Text at the margin ends code.
func (p *parser) continued(text string, margin bool) {
	if p.open == nil || p.open.kind == table || p.open.kind == code && margin {
		p.end()
		p.begin(Block{kind: paragraph})
	}
	p.open.text = strings.TrimSpace(p.open.text + " " + text)
}

// rule is the row below the heading of a table.
var rule = regexp.MustCompile(`^[|: -]+$`)

// row adds a row to the open table.
func (p *parser) row(line string) {
	if p.open == nil || p.open.kind != table {
		p.end()
		p.begin(Block{kind: table})
	}
	if rule.MatchString(line) && strings.Contains(line, "-") {
		return
	}
	cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
	for i := range cells {
		cells[i] = strings.ReplaceAll(strings.TrimSpace(cells[i]), bar, "|")
	}
	p.open.rows = append(p.open.rows, cells)
}

// bar is a character of a cell that would end the cell.
const bar = "\x00"

// Row returns the row of a table with these cells.
func Row(cells ...string) string {
	row := "|"
	for _, cell := range cells {
		row += " " + strings.ReplaceAll(cell, "|", bar) + " |"
	}
	return row + "\n"
}

// begin opens a block, unless an open block of code continues.
func (p *parser) begin(b Block) {
	if p.open == nil {
		p.open = &b
	}
}

// end closes the open block.
func (p *parser) end() {
	if p.open == nil {
		return
	}
	if p.open.kind == code {
		p.open.lines = outdent(p.open.lines)
	}
	p.blocks, p.open = append(p.blocks, *p.open), nil
}

// outdent removes the common indentation, and empty lines at both ends.
func outdent(lines []string) []string {
	common := -1
	for _, l := range lines {
		if n := len(l) - len(strings.TrimLeft(l, " ")); l != "" && (common < 0 || n < common) {
			common = n
		}
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l[min(max(common, 0), len(l)):]
	}
	for len(out) > 0 && out[0] == "" {
		out = out[1:]
	}
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

// Title returns the text of the first heading, or "".
func Title(blocks []Block) string {
	for _, b := range blocks {
		if b.kind == heading {
			return plain(b.text)
		}
	}
	return ""
}

// Headings returns the texts of all headings of a level.
func Headings(blocks []Block, level int) (texts []string) {
	for _, b := range blocks {
		if b.kind == heading && b.level == level {
			texts = append(texts, plain(b.text))
		}
	}
	return texts
}

var (
	link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	bold = regexp.MustCompile(`\*\*([^*]+)\*\*`)
	mono = regexp.MustCompile("`([^`]+)`")
)

// plain returns a text without its marks.
func plain(text string) string {
	text = link.ReplaceAllString(text, "$1")
	return mono.ReplaceAllString(bold.ReplaceAllString(text, "$1"), "$1")
}
