package ui

import (
	"context"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
)

// A Progress is a bar with rate and time left on a terminal, or lines elsewhere. Its methods may
// be called by several goroutines, and on nil.
type Progress struct {
	screen *screen       // nil: no bar
	lines  *lineProgress // nil: no lines
	what   string
	total  atomic.Int64
	done   atomic.Int64 // of a bar: before start
	bar    atomic.Pointer[progressbar.ProgressBar]
}

// barPause is the time between two drawings of a bar.
const barPause = 100 * time.Millisecond

// barDelay is the time before a bar is drawn for the first time. A rate is a guess before.
const barDelay = time.Second

// NewProgress returns the progress of a command, with a text before the bar.
func NewProgress(w io.Writer, command, what string, mode ProgressMode) *Progress {
	p := &Progress{what: what}
	if mode == ProgressNone {
		return p
	}
	if mode == ProgressAuto {
		p.screen = NewScreen(w)
	}
	if p.screen == nil {
		p.lines = &lineProgress{w: w, command: command, asJSON: mode == ProgressJSON, begins: mode != ProgressAuto, pause: linePause}
	}
	return p
}

// Visible reports whether the user sees the progress from the start. Callers may then read more
// than they need, for a better total.
func (p *Progress) Visible() bool {
	return p != nil && (p.screen != nil || p.lines != nil && p.lines.begins)
}

// Expect adds n to the total in bytes. It is called before Start.
func (p *Progress) Expect(n int64) { p.total.Add(n) }

// Start shows the bar.
func (p *Progress) Start() {
	if p == nil {
		return
	}
	if p.lines != nil {
		p.lines.start(p.done.Load(), p.total.Load(), "")
	}
	if p.screen == nil {
		return
	}
	bar := progressbar.NewOptions64(max(1, p.total.Load()),
		progressbar.OptionSetWriter(barWriter{p.screen, time.Now().Add(barDelay)}),
		progressbar.OptionSetDescription(p.fit(p.what)),
		progressbar.OptionShowBytes(true),
		progressbar.OptionShowCount(),
		progressbar.OptionUseIECUnits(true),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(barPause),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetWidth(p.screen.columns()/4),
	)
	p.bar.Store(bar)
	_ = bar.Set64(p.done.Load())
}

// fit cuts the text before the bar to half of the terminal, so that the share stays visible.
func (p *Progress) fit(text string) string {
	return text[:min(len(text), p.screen.columns()/2)]
}

// Add counts n more bytes as done.
func (p *Progress) Add(n int64) {
	if p == nil {
		return
	}
	if bar := p.bar.Load(); bar != nil {
		_ = bar.Add64(n) // more than expected, if a file grew, is no matter
		return
	}
	done := p.done.Add(n)
	if p.lines != nil {
		p.lines.tick(done, p.total.Load(), "")
	}
}

// describe changes the text before the bar.
func (p *Progress) describe(text string) {
	if p.lines != nil {
		p.lines.tick(p.done.Load(), p.total.Load(), text)
	}
	if bar := p.bar.Load(); bar != nil {
		bar.Describe(p.fit(text))
	}
}

// Follow calls expect in the background, shows the bar with a text before it, and updates
// both until hide is called. Lines that begin later begin with it, so a short command reads
// nothing for its total.
func (p *Progress) Follow(ctx context.Context, expect func(context.Context), text func() string) (hide func()) {
	if p == nil || p.screen == nil && p.lines == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() {
		if !p.Visible() && !sleep(ctx, linePause) {
			return
		}
		expect(ctx)
		p.Start()
		for ctx.Err() == nil {
			p.describe(text())
			sleep(ctx, 2*barPause)
		}
	})
	return func() {
		cancel()
		following.Wait()
		p.Clear()
	}
}

// sleep waits, and reports whether ctx lasts.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err() == nil
}

// Clear removes the bar from the screen until the next update.
func (p *Progress) Clear() {
	if p != nil && p.screen != nil {
		p.screen.clear()
	}
}

// A barWriter shows the lines of a progressbar on a screen, which cuts them at the width of
// the terminal. The time left and the rate are at the end of a line, so they go first.
type barWriter struct {
	screen *screen
	from   time.Time // earlier lines are not shown
}

// Write implements io.Writer. Each call holds one line, between carriage returns.
func (w barWriter) Write(p []byte) (int, error) {
	line := strings.TrimSpace(string(p))
	switch {
	case line == "":
		w.screen.clear()
	case !time.Now().Before(w.from):
		w.screen.show(line)
	}
	return len(p), nil
}
