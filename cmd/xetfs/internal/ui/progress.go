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

// A Progress is a bar with rate and time left, on a terminal only. Its methods may be
// called by several goroutines, and on nil.
type Progress struct {
	screen *screen // nil: no terminal
	what   string
	total  atomic.Int64
	done   atomic.Int64 // before start
	bar    atomic.Pointer[progressbar.ProgressBar]
}

// barPause is the time between two drawings of a bar.
const barPause = 100 * time.Millisecond

// barDelay is the time before a bar is drawn for the first time. A rate is a guess before.
const barDelay = time.Second

// NewProgress returns a bar with a text before it. It is visible if w is a terminal.
func NewProgress(w io.Writer, what string) *Progress {
	return &Progress{screen: NewScreen(w), what: what}
}

// Visible reports whether the bar has a terminal.
func (p *Progress) Visible() bool { return p != nil && p.screen != nil }

// Expect adds n to the total in bytes. It is called before Start.
func (p *Progress) Expect(n int64) { p.total.Add(n) }

// Start shows the bar.
func (p *Progress) Start() {
	if !p.Visible() {
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
	if !p.Visible() {
		return
	}
	if bar := p.bar.Load(); bar != nil {
		_ = bar.Add64(n) // more than expected, if a file grew, is no matter
		return
	}
	p.done.Add(n)
}

// describe changes the text before the bar.
func (p *Progress) describe(text string) {
	if !p.Visible() {
		return
	}
	if bar := p.bar.Load(); bar != nil {
		bar.Describe(p.fit(text))
	}
}

// Follow calls expect in the background, shows the bar with a text before it, and updates
// both until hide is called.
func (p *Progress) Follow(ctx context.Context, expect func(context.Context), text func() string) (hide func()) {
	if !p.Visible() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() {
		expect(ctx)
		p.Start()
		for ctx.Err() == nil {
			p.describe(text())
			select {
			case <-ctx.Done():
			case <-time.After(2 * barPause):
			}
		}
	})
	return func() {
		cancel()
		following.Wait()
		p.Clear()
	}
}

// Clear removes the bar from the screen until the next update.
func (p *Progress) Clear() {
	if p.Visible() {
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
