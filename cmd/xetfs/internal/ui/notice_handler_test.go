package ui

import (
	"bytes"
	"log/slog"
	"testing"
)

// A repeated request is news on a terminal only.
func TestNoticeHandlerRetry(t *testing.T) {
	for _, screen := range []bool{false, true} {
		var out bytes.Buffer
		h := NewNoticeHandler(&out, "xetfs ls", func(s string) string { return s }).(*noticeHandler)
		h.screen = screen
		log := slog.New(h)
		log.Warn("trying again", "event", retryEvent, "attempt", 1)
		log.With("event", retryEvent).Info("not a warning")
		log.Warn("damaged", "event", "other")
		want := "xetfs ls: damaged\n"
		if screen {
			want = "xetfs ls: trying again attempt=1\n" + want
		}
		if got := out.String(); got != want {
			t.Errorf("terminal %t: %q, want %q", screen, got, want)
		}
	}
}
