package ui

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// A ProgressMode is the form of a progress.
type ProgressMode int

// The forms of a progress.
const (
	ProgressAuto  ProgressMode = iota // a bar on a terminal, and lines elsewhere after some time
	ProgressLines                     // lines
	ProgressJSON                      // JSON objects, one a line
	ProgressNone                      // nothing
)

// linePause is the time between two lines.
const linePause = 30 * time.Second

// A lineProgress prints progress as lines on standard error, at most one in linePause.
type lineProgress struct {
	w       io.Writer
	command string
	asJSON  bool
	begins  bool // the first line is printed at the start
	pause   time.Duration

	mu            sync.Mutex
	started, last time.Time // guarded by mu
}

// start begins the pause before the next line.
func (l *lineProgress) start(done, total int64, text string) {
	l.mu.Lock()
	l.started = time.Now()
	l.last = l.started
	l.mu.Unlock()
	if l.begins {
		l.print(done, total, text)
	}
}

// tick prints a line if one is due.
func (l *lineProgress) tick(done, total int64, text string) {
	l.mu.Lock()
	due := !l.started.IsZero() && time.Since(l.last) >= l.pause
	if due {
		l.last = time.Now()
	}
	l.mu.Unlock()
	if due {
		l.print(done, total, text)
	}
}

// A progressLine is one line of ProgressJSON. The names are a promise.
type progressLine struct {
	Command string  `json:"command"`
	Done    int64   `json:"done_bytes"`
	Total   int64   `json:"total_bytes"` // 0: unknown
	Seconds float64 `json:"seconds"`
}

func (l *lineProgress) print(done, total int64, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	took := time.Since(l.started)
	if l.asJSON {
		b, err := json.Marshal(progressLine{l.command, done, total, took.Seconds()})
		if err == nil {
			fmt.Fprintf(l.w, "%s\n", b)
		}
		return
	}
	fmt.Fprintln(l.w, NoticeLine(l.command, lineText(done, total, text, took)))
}

// lineText returns the text of a line: bytes, share, rate and the step of the command.
func lineText(done, total int64, text string, took time.Duration) string {
	var b strings.Builder
	b.WriteString(HumanSize(done))
	if total > 0 {
		fmt.Fprintf(&b, " of %s, %d %%", HumanSize(total), min(100, 100*done/total))
	}
	if rate := float64(done) / took.Seconds(); took >= time.Second {
		fmt.Fprintf(&b, ", %s/s", HumanSize(int64(rate)))
	}
	if text != "" {
		b.WriteString("; " + text)
	}
	return b.String()
}
