package ui

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// A List prints the result of a command that lists: lines of text, or the array of a JSON
// object. On a terminal a heading, if any, precedes the first line, and sizes are humanized. A
// pipe or file receives neither.
type List struct {
	Out      *bufio.Writer // of all lines, also one behind the last
	Doc      *Document     // of --json; nil: text
	Terminal bool

	heading string
	started bool
}

// NewList returns a list without elements. With JSON, the caller begins the array of Doc.
func NewList(w io.Writer, asJSON bool, heading string) *List {
	l := &List{Out: bufio.NewWriterSize(w, 64<<10), Terminal: IsTerminal(w), heading: heading}
	if asJSON {
		l.Doc = NewDocument(l.Out)
	}
	return l
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Line prints one line.
func (l *List) Line(text string) error {
	if l.Terminal && !l.started && l.heading != "" {
		if _, err := fmt.Fprintln(l.Out, l.heading); err != nil {
			return err
		}
	}
	l.started = true
	_, err := fmt.Fprintln(l.Out, text)
	return err
}

// Size returns a number of bytes: humanized on a terminal, else as digits.
func (l *List) Size(n int64) string {
	if l.Terminal {
		return HumanSize(n)
	}
	return strconv.FormatInt(n, 10)
}

// shellSpecial are the characters that a shell splits or expands.
const shellSpecial = " !\"#$&'()*;<>?[\\]^`{|}~"

// Name returns a name or path. On a terminal a word that a shell would split or expand is
// quoted, so that it can be pasted.
func (l *List) Name(s string) string {
	if l.Terminal && isPrintable(s) && strings.ContainsAny(s, shellSpecial) {
		return ansiWord(s)
	}
	return QuoteName(s)
}

// Element adds an element to the array of Doc.
func (l *List) Element(value any) error {
	l.Doc.Element(value)
	return l.Doc.Err
}

// Close ends the object of Doc and writes the buffer out.
func (l *List) Close() error {
	if l.Doc != nil {
		l.Doc.End()
		if err := l.Doc.Close(); err != nil {
			return err
		}
	}
	return l.Out.Flush()
}
