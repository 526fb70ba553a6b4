package main

import (
	"context"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// A progress is a bar with rate and time left, on a terminal only. Its methods may be
// called by several goroutines, and on nil.
type progress struct {
	w     io.Writer // nil: no terminal
	what  string
	total atomic.Int64
	done  atomic.Int64 // before the bar is shown
	bar   atomic.Pointer[progressbar.ProgressBar]
}

// newProgress returns a bar for what is done, if w is a terminal.
func newProgress(w io.Writer, what string) *progress {
	p := &progress{what: what}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.w = w
	}
	return p
}

// visible says whether anybody sees the bar.
func (p *progress) visible() bool { return p != nil && p.w != nil }

// expect adds to the bytes that are to be done. It is called before start.
func (p *progress) expect(n int64) { p.total.Add(n) }

// start shows the bar.
func (p *progress) start() {
	if !p.visible() {
		return
	}
	bar := progressbar.NewOptions64(max(1, p.total.Load()),
		progressbar.OptionSetWriter(p.w),
		progressbar.OptionSetDescription(p.what),
		progressbar.OptionShowBytes(true),
		progressbar.OptionUseIECUnits(true),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionFullWidth(),
	)
	p.bar.Store(bar)
	_ = bar.Set64(p.done.Load())
}

// add says that n more bytes are done.
func (p *progress) add(n int64) {
	if !p.visible() {
		return
	}
	if bar := p.bar.Load(); bar != nil {
		_ = bar.Add64(n) // more than expected, if a file grew, is no matter
		return
	}
	p.done.Add(n)
}

// describe changes what stands before the bar.
func (p *progress) describe(text string) {
	if !p.visible() {
		return
	}
	if bar := p.bar.Load(); bar != nil {
		bar.Describe(text)
	}
}

// follow shows the bar in the background, once expect has found out how much is to be
// done, with text before it, until hide is called.
func (p *progress) follow(ctx context.Context, expect func(context.Context), text func() string) (hide func()) {
	if !p.visible() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() {
		expect(ctx)
		p.start()
		for ctx.Err() == nil {
			p.describe(text())
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	return func() {
		cancel()
		following.Wait()
		p.clear()
	}
}

// clear takes the bar away, until something is added.
func (p *progress) clear() {
	if !p.visible() {
		return
	}
	if bar := p.bar.Load(); bar != nil {
		_ = bar.Clear()
	}
}
