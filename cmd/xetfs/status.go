package main

import (
	"io"
	"sync"
	"time"
)

// A status is a line on a terminal that says what is being done, for work that is counted
// in objects. Its methods may be called by several goroutines.
type status struct {
	screen *screen // nil: no terminal

	mu    sync.Mutex
	shown time.Time // guarded by mu; zero: nothing is on the line
}

// newStatus returns a line on w, if that is a terminal.
func newStatus(w io.Writer) *status { return &status{screen: newScreen(w)} }

// statusPause is how long a line is left alone, so that it can be read.
const statusPause = 100 * time.Millisecond

// show puts a text on the line.
func (s *status) show(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.screen == nil || now.Sub(s.shown) < statusPause {
		return
	}
	s.shown = now
	s.screen.show(text)
}

// clear empties the line.
func (s *status) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.screen != nil {
		s.screen.clear()
		s.shown = time.Time{}
	}
}
