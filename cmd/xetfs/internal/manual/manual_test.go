package manual

import (
	"strings"
	"testing"
)

const sample = `# A title

A **bold** word, ` + "`code`" + ` and a [link](other.md) in a
paragraph. It's a second sentence.

## First

* one
* two, with more words than
  one line has

    code   -x
      deeper

    .last

| name | meaning |
| --- | --- |
| a | the first of some things, wrapped |
| bcd | 'x |

` + "```\n.fenced\n\n  more\n```" + `
Text behind code.
`

func TestText(t *testing.T) {
	want := `A TITLE

  A bold word, code and a link
  in a paragraph. It's a second
  sentence.

First

  * one
  * two, with more words than
    one line has

    code   -x
      deeper

    .last

  name  meaning
  a     the first of some
        things, wrapped
  bcd   'x

    .fenced

      more

  Text behind code.
`
	blocks := Parse(sample)
	if got := Text(blocks, 31); got != want {
		t.Errorf("text is\n%s\nwant\n%s", got, want)
	}
	if got := Title(blocks); got != "A title" {
		t.Errorf("title is %q", got)
	}
	if got := strings.Join(Headings(blocks, 2), "|"); got != "First" {
		t.Errorf("headings are %q", got)
	}
}

func TestTextOfHelp(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"empty", "", ""},
		{"only code", "  a\n    b", "  a\n    b\n"},
		{"long word", "a " + strings.Repeat("x", 40) + " b", "a\n" + strings.Repeat("x", 40) + "\nb\n"},
		{"minus is no item", "- a\n*b", "- a *b\n"},
		{"wide letters", "éééééééééé éééééééééé", "éééééééééé\néééééééééé\n"},
		{"table without heading", "| | |\n| --- | --- |\n| a | b |", "a  b\n"},
		{"rows of different lengths", "| a |\n| b | c |", "a\nb  c\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Text(Parse(tt.in), 20); got != tt.want {
				t.Errorf("text is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestMan(t *testing.T) {
	want := `.TH XETFS-SAMPLE 7 "2026-11-23" "xetfs 1.0"
.SH NAME
xetfs\-sample \- A title
.SH DESCRIPTION
A \fBbold\fR word, \fBcode\fR and a link in a
paragraph.
It\(aqs a second sentence.
.SH FIRST
.IP \(bu 2
one
.IP \(bu 2
two, with more words than one line has
.PP
.RS 4
.EX
code   \-x
  deeper

\&.last
.EE
.RE
.TP
a
the first of some things, wrapped
.TP
bcd
\(aqx
.PP
.RS 4
.EX
\&.fenced

  more
.EE
.RE
.PP
Text behind code.
`
	blocks := Parse(sample)
	page := Page{Name: "xetfs-sample", Section: 7, Title: Title(blocks), Date: "2026-11-23", Source: "xetfs 1.0", Body: blocks[1:]}
	if got := page.Man(); got != want {
		t.Errorf("page is\n%s\nwant\n%s", got, want)
	}
	if got := page.File(); got != "xetfs-sample.7" {
		t.Errorf("file is %q", got)
	}
}

// FuzzParse checks that no text makes the renderers panic.
func FuzzParse(f *testing.F) {
	f.Add(sample)
	f.Add("||\n\n  ```\n#")
	f.Fuzz(func(_ *testing.T, text string) {
		blocks := Parse(text)
		Text(blocks, 40)
		Page{Name: "x", Section: 1, Body: blocks}.Man()
	})
}
