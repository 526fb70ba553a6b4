package daemon

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// IsJournal reports whether a file is the stream that the variable JOURNAL_STREAM names by device
// and inode.
func IsJournal(w io.Writer, stream string) bool {
	f, ok := w.(*os.File)
	if !ok || stream == "" {
		return false
	}
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return false
	}
	return stream == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// A JournalHandler writes lines for the journal. The priority of syslog precedes each line. The
// line has neither time nor level, because the journal stores both.
type JournalHandler struct {
	slog.Handler // writes to line
	shared       *journalLine
}

// A journalLine is the line that is written.
type journalLine struct {
	mu   sync.Mutex
	line bytes.Buffer // guarded by mu
	w    io.Writer
}

// NewJournalHandler returns a handler that writes to w.
func NewJournalHandler(w io.Writer, o *slog.HandlerOptions) *JournalHandler {
	shared, all := &journalLine{w: w}, *o
	all.ReplaceAttr = dropTime(o.ReplaceAttr)
	return &JournalHandler{slog.NewTextHandler(&shared.line, &all), shared}
}

// dropTime returns replace without time and level of a line.
func dropTime(replace func([]string, slog.Attr) slog.Attr) func([]string, slog.Attr) slog.Attr {
	return func(groups []string, a slog.Attr) slog.Attr {
		switch {
		case len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey):
			return slog.Attr{}
		case replace != nil:
			return replace(groups, a)
		}
		return a
	}
}

// Handle implements slog.Handler. It writes the line with one call.
func (h *JournalHandler) Handle(ctx context.Context, r slog.Record) error {
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	h.shared.line.Reset()
	fmt.Fprintf(&h.shared.line, "<%d>", priority(r.Level))
	if err := h.Handler.Handle(ctx, r); err != nil {
		return err
	}
	_, err := h.shared.w.Write(h.shared.line.Bytes())
	return err
}

// WithAttrs implements slog.Handler.
func (h *JournalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &JournalHandler{h.Handler.WithAttrs(attrs), h.shared}
}

// WithGroup implements slog.Handler.
func (h *JournalHandler) WithGroup(name string) slog.Handler {
	return &JournalHandler{h.Handler.WithGroup(name), h.shared}
}

// priority returns the priority of syslog of a level.
func priority(l slog.Level) int {
	switch {
	case l >= slog.LevelError:
		return 3
	case l >= slog.LevelWarn:
		return 4
	case l >= slog.LevelInfo:
		return 6
	}
	return 7
}
