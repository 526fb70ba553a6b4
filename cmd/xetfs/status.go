package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/xetfs/xetfs/fs/catalog/sweep"
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

// progressText is how far a sweep or check is. It is empty while there is nothing to say.
func progressText(p sweep.Progress, now time.Time) string {
	switch {
	case !p.Waiting.IsZero():
		left := max(0, p.Waiting.Sub(now)).Round(time.Second)
		return fmt.Sprintf("%s: until %s, %s left", p.Doing, p.Waiting.Local().Format(time.TimeOnly), left)
	case p.Total > 0:
		return fmt.Sprintf("%s: %d of %s", p.Doing, p.Done, many(p.Total, "object"))
	}
	return fmt.Sprintf("%s: %s", p.Doing, many(p.Done, "object"))
}
