package logdedup

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// event is the key of these tests. Lines of the event "always" are not limited.
func event(r slog.Record) (key string, limited bool) {
	r.Attrs(func(a slog.Attr) bool { key = a.Value.String(); return false })
	return key, !strings.HasPrefix(key, "always")
}

func TestHandler(t *testing.T) {
	type step struct {
		event string
		times int
		pause time.Duration // before the step
		want  string        // the lines that the step and its pause write, as "event" or "event=count"
	}
	tests := []struct {
		name  string
		o     Options
		steps []step
	}{
		{"one line", Options{Key: event}, []step{{"a", 1, 0, "a"}, {"", 0, time.Minute, ""}}},
		{"repeats", Options{Key: event}, []step{{"a", 100, 0, "a"}, {"b", 1, 0, "b"}, {"a", 2, time.Second, ""}, {"", 0, 10 * time.Second, "a=101"}}},
		{"two periods", Options{Key: event}, []step{{"a", 2, 0, "a"}, {"a", 1, 11 * time.Second, "a=1"}, {"a", 1, 10 * time.Second, "a=1"}, {"a", 1, 21 * time.Second, "a=1 a"}}},
		{"after a quiet period", Options{Key: event}, []step{{"a", 1, 0, "a"}, {"a", 1, 11 * time.Second, "a"}}},
		{"burst", Options{Key: event, Burst: 3, Period: time.Minute}, []step{{"a", 10, 0, "a a a"}, {"", 0, time.Minute, "a=7"}}},
		{"key is the message", Options{}, []step{{"a", 1, 0, "a"}, {"b", 1, 0, ""}, {"", 0, 10 * time.Second, "b=1"}}},
		{"not limited", Options{Key: event}, []step{{"always", 3, 0, "always always always"}}},
		{"carried by a line that is not limited", Options{Key: func(r slog.Record) (string, bool) {
			_, limited := event(r)
			return "", limited
		}}, []step{{"a", 4, 0, "a"}, {"always", 1, 0, "always=3"}, {"", 0, time.Minute, ""}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out lockedBuffer
				h := New(slog.NewTextHandler(&out, nil), tt.o)
				defer h.Close()
				for i, s := range tt.steps {
					time.Sleep(s.pause)
					synctest.Wait()
					for range s.times {
						slog.New(h).Warn("m", "event", s.event)
					}
					if got := lines(&out); got != s.want {
						t.Errorf("step %d: wrote %q, want %q", i, got, s.want)
					}
				}
			})
		})
	}
}

// A lockedBuffer is a log that timers may write to.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// lines empties a log and returns its events and counts.
func lines(out *lockedBuffer) string {
	out.mu.Lock()
	defer out.mu.Unlock()
	var all []string
	for line := range strings.Lines(out.buf.String()) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), "event=")
		all = append(all, strings.Replace(line, " count", "", 1))
	}
	out.buf.Reset()
	return strings.Join(all, " ")
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		h := New(slog.NewTextHandler(&out, nil), Options{Key: event})
		log := slog.New(h)
		for range 3 {
			log.With("x", 1).Warn("m", "event", "a")
		}
		counted := slog.Record{Message: "m"}
		counted.AddAttrs(slog.String("event", "b"))
		h.Count(counted)
		h.Close()
		if got := lines(&out); got != "a a=2 b=1" && got != "a b=1 a=2" {
			t.Errorf("wrote %q", got)
		}
		log.Warn("m", "event", "a")
		log.Warn("m", "event", "a")
		if got := lines(&out); got != "a a" {
			t.Errorf("after Close: wrote %q", got)
		}
	})
}

func TestMaxKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(slog.DiscardHandler, Options{Key: event})
		defer h.Close()
		for i := range 2 * maxKeys {
			r := slog.Record{Message: "m"}
			r.AddAttrs(slog.String("event", fmt.Sprintf("a\x00%d", i)))
			_ = h.Handle(t.Context(), r)
		}
		if n := len(h.keys); n != maxKeys+1 {
			t.Errorf("%d keys", n)
		}
	})
}
