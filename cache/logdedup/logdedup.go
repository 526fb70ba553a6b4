// Package logdedup limits repeated log lines. A Handler passes the first lines of a key and
// counts the others. At the end of the period it writes the last counted line with the count.
package logdedup

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Options are the limits of a Handler.
type Options struct {
	Period time.Duration // in which lines of one key count as repeats; 0: DefaultPeriod
	Burst  int           // lines of one key in a period; 0: 1
	Count  string        // attribute with the number of counted lines; "": count

	// Key returns the key of a line, and false for a line that is always written. Such a line
	// carries the count of its key. nil: the key is the message.
	Key func(r slog.Record) (key string, limited bool)
}

// DefaultPeriod is the default of Options.Period.
const DefaultPeriod = 10 * time.Second

// maxKeys bounds the keys of one period. Further keys are cut at their first NUL.
const maxKeys = 4096

// A Handler is a slog.Handler that limits repeated lines. It is safe for concurrent use.
type Handler struct {
	next slog.Handler
	*limiter
}

// A limiter is the state that a Handler shares with the handlers of WithAttrs and WithGroup.
type limiter struct {
	o Options

	mu     sync.Mutex
	keys   map[string]*counter // guarded by mu
	closed bool                // guarded by mu
}

// A counter has the lines of one key in the current period.
type counter struct {
	written int
	counted int
	last    slog.Record  // the last counted line
	next    slog.Handler // of last
	timer   *time.Timer  // ends the period
}

// New returns a Handler in front of next.
func New(next slog.Handler, o Options) *Handler {
	if o.Period == 0 {
		o.Period = DefaultPeriod
	}
	if o.Burst == 0 {
		o.Burst = 1
	}
	if o.Count == "" {
		o.Count = "count"
	}
	if o.Key == nil {
		o.Key = func(r slog.Record) (string, bool) { return r.Message, true }
	}
	return &Handler{next, &limiter{o: o, keys: make(map[string]*counter)}}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

// WithAttrs implements slog.Handler. The attributes are no part of a key.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.next.WithAttrs(attrs), h.limiter}
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.next.WithGroup(name), h.limiter}
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	counted, ok := h.admit(r, h.next)
	if !ok {
		return nil
	}
	return h.write(ctx, h.next, r, counted)
}

// Count counts a line without writing it.
func (h *Handler) Count(r slog.Record) {
	key, _ := h.o.Key(r)
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.counterLocked(key, true); c != nil {
		c.add(r, h.next)
	}
}

// Close writes the counted lines. Later lines are not limited.
func (h *Handler) Close() {
	h.mu.Lock()
	h.closed = true
	keys := h.keys
	h.keys = make(map[string]*counter)
	h.mu.Unlock()
	for key, c := range keys {
		c.timer.Stop()
		h.endPeriod(key, c)
	}
}

// admit reports whether a line is to be written, and the number of counted lines before it.
func (l *limiter) admit(r slog.Record, next slog.Handler) (counted int, ok bool) {
	key, limited := l.o.Key(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counterLocked(key, limited)
	if c == nil {
		return 0, true
	}
	if limited && c.written >= l.o.Burst {
		c.add(r, next)
		return 0, false
	}
	if limited {
		c.written++
	}
	counted, c.counted = c.counted, 0
	return counted, true
}

// counterLocked returns the counter of a key. A missing one is created if create is set.
func (l *limiter) counterLocked(key string, create bool) *counter {
	c := l.keys[key]
	if c == nil && len(l.keys) >= maxKeys {
		key, _, _ = strings.Cut(key, "\x00")
		c = l.keys[key]
	}
	if c != nil || !create || l.closed {
		return c
	}
	c = &counter{}
	c.timer = time.AfterFunc(l.o.Period, func() { l.endPeriod(key, c) })
	l.keys[key] = c
	return c
}

func (c *counter) add(r slog.Record, next slog.Handler) {
	c.counted++
	c.last, c.next = r.Clone(), next
}

// endPeriod writes the last counted line and begins another period. Without counted lines it
// drops the counter.
func (l *limiter) endPeriod(key string, c *counter) {
	l.mu.Lock()
	counted, last, next := c.counted, c.last, c.next
	c.counted, c.written = 0, 1
	switch {
	case l.closed:
	case counted == 0:
		delete(l.keys, key)
	default:
		c.timer.Reset(l.o.Period)
	}
	l.mu.Unlock()
	if counted > 0 {
		last.Time = time.Now()
		_ = l.write(context.Background(), next, last, counted) // nothing can be done about a broken log
	}
}

func (l *limiter) write(ctx context.Context, next slog.Handler, r slog.Record, counted int) error {
	if counted > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int(l.o.Count, counted))
	}
	return next.Handle(ctx, r)
}
