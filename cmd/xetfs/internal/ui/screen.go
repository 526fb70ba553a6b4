package ui

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// A screen overwrites the last line of a terminal. It cuts the line at the width of the
// terminal, because the first part of a wrapped line would stay. It is safe for concurrent use.
type screen struct {
	w     io.Writer
	width func() int // columns; 0: unknown

	mu    sync.Mutex
	drawn bool // guarded by mu
}

// NewScreen returns the screen of a terminal, and nil if w is none.
func NewScreen(w io.Writer) *screen {
	if !IsTerminal(w) {
		return nil
	}
	f := w.(*os.File)
	return &screen{w: w, width: func() int {
		columns, _, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 0
		}
		return columns
	}}
}

// defaultColumns is the width of a terminal that reports none.
const defaultColumns = 80

// columns returns how wide the terminal is now.
func (s *screen) columns() int {
	if n := s.width(); n > 0 {
		return n
	}
	return defaultColumns
}

// Columns returns the width of a terminal. It is 80 for a file, a pipe or an unknown width.
func Columns(w io.Writer) int {
	if s := NewScreen(w); s != nil {
		return s.columns()
	}
	return defaultColumns
}

// show puts a text on the line. The last column stays free: some terminals wrap there.
func (s *screen) show(text string) {
	line := []rune(Printable(text))
	line = line[:max(0, min(len(line), s.columns()-1))]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drawn = true
	fmt.Fprintf(s.w, "\r\x1b[K%s", string(line))
}

// clear empties the line.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drawn {
		s.drawn = false
		fmt.Fprint(s.w, "\r\x1b[K")
	}
}
