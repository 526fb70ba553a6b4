package ui

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// A noticeHandler is a slog.Handler for commands in the foreground. A warning is a line on
// standard error that begins with the name of the command.
type noticeHandler struct {
	w       io.Writer
	command string
	words   func(string) string // translates a line for people
	screen  bool                // w is a terminal
	attrs   []slog.Attr
}

// retryEvent is the event of a request that is repeated. It is news for a user at a terminal;
// elsewhere the error at the end counts the attempts.
const retryEvent = "origin_retry"

// NewNoticeHandler returns a handler that prints warnings to w. Each line passes through words.
func NewNoticeHandler(w io.Writer, command string, words func(string) string) slog.Handler {
	return &noticeHandler{w: w, command: command, words: words, screen: IsTerminal(w)}
}

// Enabled implements slog.Handler.
func (n *noticeHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle implements slog.Handler.
func (n *noticeHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(n.command + ": " + r.Message)
	repeated := false
	add := func(a slog.Attr) bool {
		repeated = repeated || a.Key == "event" && a.Value.String() == retryEvent
		if a.Key != "event" && a.Key != "what" {
			fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		}
		return true
	}
	for _, a := range n.attrs {
		add(a)
	}
	r.Attrs(add)
	if repeated && !n.screen {
		return nil
	}
	_, err := fmt.Fprintln(n.w, Printable(n.words(b.String())))
	return err
}

// WithAttrs implements slog.Handler.
func (n *noticeHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &noticeHandler{n.w, n.command, n.words, n.screen, append(n.attrs[:len(n.attrs):len(n.attrs)], attrs...)}
}

// WithGroup implements slog.Handler. No logger of a command has groups.
func (n *noticeHandler) WithGroup(string) slog.Handler { return n }
