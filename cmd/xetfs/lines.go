package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// A lineList prints the lines of a command that lists. On a terminal a heading, if any,
// precedes the first line, and sizes are humanized. A pipe or file receives neither.
type lineList struct {
	out      *bufio.Writer
	heading  string
	terminal bool
	begun    bool
}

func newLineList(w io.Writer, heading string) *lineList {
	return &lineList{out: bufio.NewWriterSize(w, 64<<10), heading: heading, terminal: isTerminal(w)}
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// line prints one line.
func (l *lineList) line(text string) error {
	if l.terminal && !l.begun && l.heading != "" {
		if _, err := fmt.Fprintln(l.out, l.heading); err != nil {
			return err
		}
	}
	l.begun = true
	_, err := fmt.Fprintln(l.out, text)
	return err
}

// size is a number of bytes as the reader of the list wants it.
func (l *lineList) size(n int64) string {
	if l.terminal {
		return human(n)
	}
	return strconv.FormatInt(n, 10)
}

// shellSpecial are the characters that a shell splits or expands.
const shellSpecial = " !\"#$&'()*;<>?[\\]^`{|}~"

// name is a name or path. On a terminal one that a shell would split or expand is quoted,
// so that it can be pasted.
func (l *lineList) name(s string) string {
	if l.terminal && isPrintable(s) && strings.ContainsAny(s, shellSpecial) {
		return ansiWord(s)
	}
	return quoteName(s)
}

// flush writes the lines out.
func (l *lineList) flush() error { return l.out.Flush() }
