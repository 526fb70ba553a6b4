package ui

import (
	"io"
	"sync"
	"time"
)

// A Status is a line on a terminal that shows the present step of work that is counted in
// objects. It is safe for concurrent use.
type Status struct {
	screen *screen // nil: no terminal

	mu    sync.Mutex
	shown time.Time // guarded by mu; zero: nothing is on the line
}

// NewStatus returns a line on w, if that is a terminal.
func NewStatus(w io.Writer) *Status { return &Status{screen: NewScreen(w)} }

// statusPause is the time between two texts, so that each can be read.
const statusPause = 100 * time.Millisecond

// Show puts a text on the line.
func (s *Status) Show(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.screen == nil || now.Sub(s.shown) < statusPause {
		return
	}
	s.shown = now
	s.screen.show(text)
}

// Clear empties the line.
func (s *Status) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.screen != nil {
		s.screen.clear()
		s.shown = time.Time{}
	}
}
