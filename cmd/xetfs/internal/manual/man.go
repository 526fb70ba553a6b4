package manual

import (
	"fmt"
	"strings"
)

// A Page is a man page.
type Page struct {
	Name    string // of the file, without the section: "xetfs-mount"
	Section int
	Title   string // one line for whatis(1)
	Date    string // like 2026-11-23
	Source  string // at the foot: the program and its version
	Body    []Block
}

// File returns the name of the file of a page, like "xetfs-mount.1".
func (p Page) File() string { return fmt.Sprintf("%s.%d", p.Name, p.Section) }

// Man returns the page in the language of man(7). The sections of the page are the headings of
// the levels 1 and 2.
func (p Page) Man() string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s %d %q %q\n", strings.ToUpper(p.Name), p.Section, p.Date, p.Source)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(p.Name), roff(p.Title))
	for i, block := range p.Body {
		if i == 0 && block.kind != heading {
			b.WriteString(".SH DESCRIPTION\n")
		}
		after := i > 0 && p.Body[i-1].kind != heading
		b.WriteString(block.man(after))
	}
	return b.String()
}

// man returns one block. An after block follows another block than a heading.
func (b Block) man(after bool) string {
	switch b.kind {
	case heading:
		return fmt.Sprintf(".%s %s\n", map[bool]string{true: "SS", false: "SH"}[b.level > 2], strings.ToUpper(roff(plain(b.text))))
	case code:
		return example(b.lines, after)
	case item:
		return ".IP \\(bu 2\n" + manText(b.text)
	case table:
		return manTable(b.rows, after)
	}
	if after {
		return ".PP\n" + manText(b.text)
	}
	return manText(b.text)
}

// example returns lines that are printed as they are.
func example(lines []string, after bool) string {
	text := ".RS 4\n.EX\n"
	if after {
		text = ".PP\n" + text
	}
	for _, l := range lines {
		text += guard(roff(l)) + "\n"
	}
	return text + ".EE\n.RE\n"
}

// manTable returns a table with two columns as a list of terms, and any other as it is printed.
func manTable(rows [][]string, after bool) string {
	for _, row := range rows {
		if len(row) != 2 {
			return example(tableText(rows, 72), after)
		}
	}
	text := ""
	for i, row := range rows {
		if i == 0 { // the heading
			continue
		}
		text += ".TP\n" + guard(inline(row[0])) + "\n" + manText(row[1])
	}
	return text
}

// manText returns a paragraph, one sentence a line, wrapped.
func manText(text string) string {
	out := ""
	for _, sentence := range splitSentences(text) {
		for _, line := range wrap(sentence, 60) {
			out += guard(inline(line)) + "\n"
		}
	}
	return out
}

// splitSentences splits a text where a man page begins a new line.
func splitSentences(text string) (sentences []string) {
	start := 0
	words := strings.Fields(text)
	for i, w := range words {
		if end := strings.TrimRight(w, `"')]*`+"`"); strings.HasSuffix(end, ".") || strings.HasSuffix(end, "?") || strings.HasSuffix(end, "!") || i == len(words)-1 {
			sentences = append(sentences, strings.Join(words[start:i+1], " "))
			start = i + 1
		}
	}
	return sentences
}

// inline returns a text with marks in the language of man(7). A mark that a line break separates
// from its end is dropped.
func inline(text string) string {
	text = roff(link.ReplaceAllString(text, "$1"))
	text = bold.ReplaceAllString(text, `\fB$1\fR`)
	text = mono.ReplaceAllString(text, `\fB$1\fR`)
	return strings.ReplaceAll(strings.ReplaceAll(text, "`", ""), "**", "")
}

// escapes are the characters that have a meaning in man(7), or another shape in print.
var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", `\&...`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`)

// roff returns a text as it is printed.
func roff(text string) string { return escapes.Replace(text) }

// guard protects a line that begins like a request.
func guard(line string) string {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		return `\&` + line
	}
	return line
}
