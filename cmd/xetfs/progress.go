package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A progress is a bar with rate and time left, on a terminal only. Its methods may be
// called by several goroutines, and on nil.
type progress struct {
	screen *screen // nil: no terminal
	total  atomic.Int64
	done   atomic.Int64
	next   atomic.Int64 // nanoseconds since 1970 at which the bar is drawn again; 0: before start

	mu    sync.Mutex
	what  string    // before the bar; guarded by mu
	began time.Time // of the first byte or of start; guarded by mu
	once  sync.Once // sets began
}

// barPause is the time between two drawings of a bar.
const barPause = 100 * time.Millisecond

// newProgress returns a bar for what is done, if w is a terminal.
func newProgress(w io.Writer, what string) *progress {
	return &progress{screen: newScreen(w), what: what}
}

// visible reports whether the bar has a terminal.
func (p *progress) visible() bool { return p != nil && p.screen != nil }

// expect adds to the bytes that are to be done. It is called before start.
func (p *progress) expect(n int64) { p.total.Add(n) }

// start shows the bar.
func (p *progress) start() {
	if !p.visible() {
		return
	}
	p.begin()
	p.next.Store(1)
	p.draw()
}

// begin sets the time from which the rate is counted.
func (p *progress) begin() {
	p.once.Do(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.began = time.Now()
	})
}

// add counts n more bytes as done.
func (p *progress) add(n int64) {
	if !p.visible() {
		return
	}
	p.begin()
	p.done.Add(n)
	p.draw()
}

// describe changes the text before the bar.
func (p *progress) describe(text string) {
	if !p.visible() {
		return
	}
	p.mu.Lock()
	p.what = text
	p.mu.Unlock()
	p.draw()
}

// draw draws the bar if its time has come. One caller draws, and others do not wait for it.
func (p *progress) draw() {
	now := time.Now()
	next := p.next.Load()
	if next == 0 || now.UnixNano() < next || !p.next.CompareAndSwap(next, now.Add(barPause).UnixNano()) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.screen.show(barLine(p.screen.columns()-1, p.what, p.done.Load(), p.total.Load(), now.Sub(p.began)))
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
			case <-time.After(2 * barPause):
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
	if p.visible() {
		p.screen.clear()
	}
}

const (
	leastBar = 6           // columns of a bar that says something
	mostBar  = 40          // a longer one says no more
	soonest  = time.Second // before it a rate is a guess
)

// barLine returns the line of a bar in at most so many columns. All of it is ASCII:
//
//	publish  42% [=======>         ] 420 of 999 MiB, 100 MiB/s, 6s left
//
// Where it does not fit, the time left goes first, then the rate, the sizes, the bar, and
// the end of the text.
func barLine(columns int, what string, done, total int64, took time.Duration) string {
	share := 1.0 // a file may grow while it is read
	if done < total {
		share = float64(done) / float64(total)
	}
	head := fmt.Sprintf("%s %3d%%", what, int(share*100))
	parts := []string{human(done) + " of " + human(max(done, total))}
	if took >= soonest && done > 0 {
		rate := float64(done) / took.Seconds()
		parts = append(parts, human(int64(rate))+"/s")
		if left := float64(total-done) / rate; left > 0 && left < 360_000 {
			parts = append(parts, time.Duration(left*float64(time.Second)).Round(time.Second).String()+" left")
		}
	}
	for n := len(parts); n >= 0; n-- {
		tail := strings.Join(parts[:n], ", ")
		if tail != "" {
			tail = " " + tail
		}
		if room := columns - len(head) - len(tail) - len(" []"); room >= leastBar {
			return head + " [" + barOf(min(room, mostBar), share) + "]" + tail
		}
	}
	percent := head[len(what):]
	if keep := columns - len(percent); len(what) > keep {
		what = what[:max(0, keep)]
	}
	return what + percent
}

// barOf draws a bar of so many columns.
func barOf(columns int, share float64) string {
	full := int(share * float64(columns))
	if full == columns {
		return strings.Repeat("=", columns)
	}
	return strings.Repeat("=", full) + ">" + strings.Repeat(" ", columns-full-1)
}
