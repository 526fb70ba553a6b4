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

// A LineList prints the lines of a command that lists. On a terminal a heading, if any,
// precedes the first line, and sizes are humanized. A pipe or file receives neither.
type LineList struct {
	Out      *bufio.Writer
	Heading  string
	Terminal bool
	begun    bool
}

func NewLineList(w io.Writer, heading string) *LineList {
	return &LineList{Out: bufio.NewWriterSize(w, 64<<10), Heading: heading, Terminal: isTerminal(w)}
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Line prints one line.
func (l *LineList) Line(text string) error {
	if l.Terminal && !l.begun && l.Heading != "" {
		if _, err := fmt.Fprintln(l.Out, l.Heading); err != nil {
			return err
		}
	}
	l.begun = true
	_, err := fmt.Fprintln(l.Out, text)
	return err
}

// Size returns a number of bytes: humanized on a terminal, else as digits.
func (l *LineList) Size(n int64) string {
	if l.Terminal {
		return HumanSize(n)
	}
	return strconv.FormatInt(n, 10)
}

// shellSpecial are the characters that a shell splits or expands.
const shellSpecial = " !\"#$&'()*;<>?[\\]^`{|}~"

// Name returns a name or path. On a terminal a word that a shell would split or expand is
// quoted, so that it can be pasted.
func (l *LineList) Name(s string) string {
	if l.Terminal && isPrintable(s) && strings.ContainsAny(s, shellSpecial) {
		return ansiWord(s)
	}
	return QuoteName(s)
}

// Flush writes the lines out.
func (l *LineList) Flush() error { return l.Out.Flush() }
