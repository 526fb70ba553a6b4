package fs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/reconstruct"
)

const (
	foldFor    = 10 * time.Second // one line per event and object in this time
	mostFolds  = 4096             // objects that are told apart at one time
	mostCauses = 4096             // files whose last error is kept
	stackSize  = 64 << 10
)

// A failure is something that could not be done.
type failure struct {
	doing string // "read", "open", "lookup", "list"
	path  string
	file  codec.FileID // zero: not known
	ino   uint64       // 0: not known
	off   int64        // of a read
	err   error
}

// why is the error for people, who know of no contexts.
func (f *failure) why() string {
	return strings.Replace(f.err.Error(), context.DeadlineExceeded.Error(), "no answer in time", 1)
}

// A reporter writes the log lines of a mount: one for each cause, however often it
// strikes. It also keeps the last cause for each file.
type reporter struct {
	log *slog.Logger

	mu     sync.Mutex
	folds  map[fold]*folded  // guarded by mu
	causes map[uint64]string // by inode; guarded by mu
	closed bool              // guarded by mu
}

// A fold is one event of one object.
type fold struct {
	event  string
	object string
}

// A folded is the lines that were not written since the last one was.
type folded struct {
	count int
	last  []slog.Attr
	timer *time.Timer
}

func newReporter(log *slog.Logger) *reporter {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &reporter{log: log, folds: make(map[fold]*folded), causes: make(map[uint64]string)}
}

// failed reports what becomes an EIO, and returns the status for the kernel.
func (r *reporter) failed(f failure, code syscall.Errno) fuse.Status {
	if code != syscall.EIO {
		return fuse.Status(code)
	}
	r.remember(f)
	attrs := []slog.Attr{slog.String("doing", f.doing), slog.String("path", f.path)}
	if !f.file.File.IsZero() {
		attrs = append(attrs, slog.Any("file", f.file.File))
	}
	if !f.file.Shard.IsZero() {
		attrs = append(attrs, slog.Any("shard", f.file.Shard))
	}
	if f.doing == "read" {
		attrs = append(attrs, slog.Int64("off", f.off))
	}
	event := eventOf(f.err)
	var term *reconstruct.TermError
	if errors.As(f.err, &term) {
		attrs = append(attrs, slog.Int("term", term.Term), slog.Any("xorb", term.Xorb))
	}
	var chunk *codec.ChunkError
	if errors.As(f.err, &chunk) {
		attrs = append(attrs, slog.Int("chunk", chunk.Chunk))
	}
	if event == "corrupt" {
		attrs = append(attrs, slog.String("what", damaged(f.err)))
	}
	attrs = append(attrs, slog.String("err", f.why()))
	r.line(fold{event, f.path}, attrs)
	return fuse.Status(code)
}

// damages says which object is damaged where a format is broken, by how the name of the
// format begins.
var damages = []struct{ format, what string }{
	{"chunk header", "chunk"}, {"chunks", "xorb"}, {"chunk", "chunk"}, {"lz4", "chunk"},
	{"xorb", "xorb"}, {"run", "xorb"},
	{"term", "term"},
	{"shard", "shard"}, {"file info", "shard"}, {"CAS info", "shard"}, {"cas info", "shard"},
}

func damaged(err error) string {
	var corrupt *codec.CorruptError
	if errors.As(err, &corrupt) {
		for _, d := range damages {
			if strings.HasPrefix(corrupt.Format, d.format) {
				return d.what
			}
		}
	}
	return "file"
}

// rejected reports a name that cannot be shown.
func (r *reporter) rejected(dir, name string) {
	r.line(fold{"name_rejected", dir}, []slog.Attr{slog.String("dir", dir), slog.String("name", name)})
}

// panicked reports a panic and where it was.
func (r *reporter) panicked(what any) {
	stack := make([]byte, stackSize)
	stack = stack[:runtime.Stack(stack, false)]
	r.log.Error("panic", "event", "panic", "err", fmt.Sprint(what), "stack", string(stack))
}

// remember keeps the cause for user.xet.error. Where too many files fail, it forgets
// some.
func (r *reporter) remember(f failure) {
	if f.ino == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.causes[f.ino]; !known && len(r.causes) >= mostCauses {
		for ino := range r.causes {
			delete(r.causes, ino)
			break
		}
	}
	r.causes[f.ino] = f.why()
}

// cause returns why a file failed last.
func (r *reporter) cause(ino uint64) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cause, ok := r.causes[ino]
	return cause, ok
}

// line writes a line at once, if it is the first of its kind in a while, or counts it.
func (r *reporter) line(key fold, attrs []slog.Attr) {
	r.mu.Lock()
	f, again := r.folds[key]
	if !again && len(r.folds) >= mostFolds {
		key.object = ""
		f, again = r.folds[key]
	}
	switch {
	case again:
		f.count, f.last = f.count+1, attrs
	case !r.closed:
		f = &folded{}
		f.timer = time.AfterFunc(foldFor, func() { r.unfold(key, f) })
		r.folds[key] = f
	}
	r.mu.Unlock()
	if !again {
		r.write(key, attrs)
	}
}

// unfold writes what was counted, and goes on counting if there was something.
func (r *reporter) unfold(key fold, f *folded) {
	r.mu.Lock()
	count, last := f.count, f.last
	f.count, f.last = 0, nil
	if count == 0 || r.closed {
		delete(r.folds, key)
	} else {
		f.timer.Reset(foldFor)
	}
	r.mu.Unlock()
	if count > 0 {
		r.write(key, append(last, slog.Int("count", count)))
	}
}

func (r *reporter) write(key fold, attrs []slog.Attr) {
	message := "reading failed"
	if key.event == "name_rejected" {
		message = "a name cannot be shown"
	}
	r.log.LogAttrs(context.Background(), slog.LevelWarn, message, append([]slog.Attr{slog.String("event", key.event)}, attrs...)...)
}

// close writes what was counted so far.
func (r *reporter) close() {
	r.mu.Lock()
	r.closed = true
	folds := r.folds
	r.folds = make(map[fold]*folded)
	r.mu.Unlock()
	for key, f := range folds {
		f.timer.Stop()
		r.unfold(key, f)
	}
}
