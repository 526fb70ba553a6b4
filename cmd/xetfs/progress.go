package main

import (
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// A progress is a bar with rate and time left, on a terminal only. Its methods may be
// called by several goroutines, and on nil.
type progress struct {
	w     io.Writer // nil: no terminal
	total atomic.Int64
	bar   *progressbar.ProgressBar
}

func newProgress(w io.Writer) *progress {
	p := new(progress)
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.w = w
	}
	return p
}

// expect adds to the bytes that are to be done. It is called before start.
func (p *progress) expect(n int64) { p.total.Add(n) }

// start shows the bar.
func (p *progress) start() {
	if p.w == nil {
		return
	}
	p.bar = progressbar.NewOptions64(max(1, p.total.Load()),
		progressbar.OptionSetWriter(p.w),
		progressbar.OptionSetDescription("verify"),
		progressbar.OptionShowBytes(true),
		progressbar.OptionUseIECUnits(true),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionFullWidth(),
	)
}

// add says that n more bytes are done.
func (p *progress) add(n int64) {
	if p == nil || p.bar == nil {
		return
	}
	_ = p.bar.Add64(n) // more than expected, if a file grew, is no matter
}

// clear takes the bar away, until something is added.
func (p *progress) clear() {
	if p != nil && p.bar != nil {
		_ = p.bar.Clear()
	}
}
