package fs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/cache/logdedup"
	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/reconstruct"
)

const (
	dedupPeriod = logdedup.DefaultPeriod // one line per event and object in this time
	maxCauses   = 4096                   // files whose last error is stored
	stackSize   = 64 << 10
)

// A failure is a failed operation.
type failure struct {
	doing string // "read", "open", "lookup", "list"
	path  string
	file  codec.FileID // zero: unknown
	ino   uint64       // 0: unknown
	off   int64        // of a read
	err   error
}

// text returns the error for people, without the words of package context.
func (f *failure) text() string {
	return strings.Replace(f.err.Error(), context.DeadlineExceeded.Error(), "no answer in time", 1)
}

// A reporter writes the log lines of a mount, one per cause and dedupPeriod. It stores the
// last error of each file.
type reporter struct {
	dedup *logdedup.Handler
	log   *slog.Logger // writes to dedup

	mu     sync.Mutex
	causes *lru.Cache[uint64, string] // by inode; guarded by mu
	recent []Failure                  // oldest first; guarded by mu

	corrupt atomic.Int64 // failures because of corrupt content
}

// A Failure is an error that a program got for a file.
type Failure struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"` // as in the log
	Doing string    `json:"doing"` // "read", "open", "lookup" or "list"
	Path  string    `json:"path"`  // in the mount, at most maxFailureText bytes
	Cause string    `json:"cause"` // at most maxFailureText bytes
	Count int64     `json:"count"` // in a row, with this event and path
}

// Bounds of the failures that a reporter stores.
const (
	maxFailures    = 8
	maxFailureText = 500
)

// addFailure stores a failure. It drops the oldest one above maxFailures.
func (r *reporter) addFailure(event string, f *failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := Failure{time.Now(), event, f.doing, clip(f.path), clip(f.text()), 1}
	if n := len(r.recent); n > 0 && r.recent[n-1].Event == event && r.recent[n-1].Path == now.Path {
		now.Count += r.recent[n-1].Count
		r.recent[n-1] = now
		return
	}
	if len(r.recent) == maxFailures {
		r.recent = slices.Delete(r.recent, 0, 1)
	}
	r.recent = append(r.recent, now)
}

// clip bounds a text, and makes it valid UTF-8.
func clip(text string) string {
	if len(text) > maxFailureText {
		text = text[:maxFailureText]
	}
	return strings.ToValidUTF8(text, "?")
}

// failures returns the last failures, oldest first.
func (r *reporter) failures() []Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.recent)
}

func newReporter(log *slog.Logger) *reporter {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	dedup := logdedup.New(log.Handler(), logdedup.Options{Key: logKey})
	return &reporter{dedup: dedup, log: slog.New(dedup), causes: lru.New[uint64, string](maxCauses, nil)}
}

// logKey returns event and object of a line. Panics are not limited.
func logKey(r slog.Record) (key string, limited bool) {
	var event, object string
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "event":
			event = a.Value.String()
		case "path", "dir":
			object = a.Value.String()
		}
		return event == "" || object == ""
	})
	return event + "\x00" + object, event != "panic"
}

// failed logs an EIO, and returns the status for the kernel.
func (r *reporter) failed(f failure, code syscall.Errno) fuse.Status {
	if code != syscall.EIO {
		return fuse.Status(code)
	}
	r.remember(f)
	event := eventOf(f.err)
	r.addFailure(event, &f)
	attrs := []slog.Attr{slog.String("event", event), slog.String("doing", f.doing), slog.String("path", f.path)}
	if !f.file.File.IsZero() {
		attrs = append(attrs, slog.Any("file", f.file.File))
	}
	if !f.file.Shard.IsZero() {
		attrs = append(attrs, slog.Any("shard", f.file.Shard))
	}
	if f.doing == "read" {
		attrs = append(attrs, slog.Int64("off", f.off))
	}
	var term *reconstruct.TermError
	if errors.As(f.err, &term) {
		attrs = append(attrs, slog.Int("term", term.Term), slog.Any("xorb", term.Xorb))
	}
	var chunk *codec.ChunkError
	if errors.As(f.err, &chunk) {
		attrs = append(attrs, slog.Int("chunk", chunk.Chunk))
	}
	if event == "corrupt" {
		r.corrupt.Add(1)
		attrs = append(attrs, slog.String("what", corruptObject(f.err)))
	}
	attrs = append(attrs, slog.String("err", f.text()))
	r.log.LogAttrs(context.Background(), slog.LevelWarn, "reading failed", attrs...)
	return fuse.Status(code)
}

// corruptKinds maps the first words of a format to the corrupt object.
var corruptKinds = []struct{ format, what string }{
	{"chunk header", "chunk"}, {"chunks", "xorb"}, {"chunk", "chunk"}, {"lz4", "chunk"},
	{"xorb", "xorb"}, {"run", "xorb"},
	{"term", "term"},
	{"shard", "shard"}, {"file info", "shard"}, {"CAS info", "shard"}, {"cas info", "shard"},
}

func corruptObject(err error) string {
	var corrupt *codec.CorruptError
	if errors.As(err, &corrupt) {
		for _, d := range corruptKinds {
			if strings.HasPrefix(corrupt.Format, d.format) {
				return d.what
			}
		}
	}
	return "file"
}

// rejected logs an illegal name.
func (r *reporter) rejected(dir, name string) {
	r.log.Warn("a name is illegal and not listed", "event", "name_rejected", "dir", dir, "name", name)
}

// panicked logs a panic with its stack.
func (r *reporter) panicked(what any) {
	stack := make([]byte, stackSize)
	stack = stack[:runtime.Stack(stack, false)]
	r.log.Error("panic", "event", "panic", "err", fmt.Sprint(what), "stack", string(stack))
}

// remember stores the cause for user.xet.error. It drops another one above maxCauses.
func (r *reporter) remember(f failure) {
	if f.ino == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.causes.Remove(f.ino)
	r.causes.Add(f.ino, f.text(), 1)
}

// cause returns the last error of a file.
func (r *reporter) cause(ino uint64) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.causes.Get(ino)
}

// close writes the counted lines.
func (r *reporter) close() { r.dedup.Close() }
