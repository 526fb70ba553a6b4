package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/xorb"
)

func largestInfo() *xorb.Info {
	return &xorb.Info{
		Chunks:    make([]codec.Hash, codec.MaxXorbChunks),
		PackedEnd: make([]uint32, codec.MaxXorbChunks), UnpackedEnd: make([]uint32, codec.MaxXorbChunks),
	}
}

// within fails if something does not end.
func within(t fataler, do func()) {
	t.Helper()
	codectest.Within(t, codectest.Patience, "the call", do)
}

// If the Sink fails, once or permanently, some call and all later calls return the error. All
// stored objects are complete.
func TestSinkFails(t *testing.T) {
	full := errors.New("disk full")
	for _, once := range []bool{false, true} {
		for fails := range int64(14) {
			t.Run(fmt.Sprintf("at put %d, once=%t", fails+1, once), func(t *testing.T) {
				sink := newMemory()
				var puts atomic.Int64
				sink.before = func(string) error {
					if n := puts.Add(1) - 1; n == fails || n > fails && !once {
						return full
					}
					return nil
				}
				s := newSession(t, sink, Options{maxXorbSize: 40_000, ShardBytes: 700})
				within(t, func() { s.fill(t, full) })
				if n := puts.Load(); n <= fails {
					t.Errorf("only %d puts", n)
				}
				checkTold(t, s)
			})
		}
	}
}

// fill adds files until a call fails with want, and checks that all calls after it do.
func (s *session) fill(t *testing.T, want error) {
	t.Helper()
	var err error
	for i := range 40 {
		next := s.w.AddFile(t.Context(), bytes.NewReader(codectest.Bytes(uint64(i), 30_000)))
		if err != nil && !errors.Is(next, want) {
			t.Errorf("AddFile after an error = %v", next)
		}
		err = next
	}
	if err := s.w.Flush(t.Context()); !errors.Is(err, want) {
		t.Errorf("Flush = %v, want %v", err, want)
	}
	for range 2 {
		if err := s.w.Close(t.Context()); !errors.Is(err, want) {
			t.Errorf("Close = %v, want %v", err, want)
		}
	}
}

// checkTold checks that all stored objects are complete, and that the reported files are among
// them.
func checkTold(t fataler, s *session) {
	t.Helper()
	c, err := s.sink.decode()
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, f := range s.done {
		if _, err := c.find(f.ID); err != nil {
			t.Fatalf("told of, but not there: %v", err)
		}
	}
}

// A Sink that hangs until its context ends does not outlive the calls that wait for it.
func TestSinkHangs(t *testing.T) {
	tests := []struct {
		name string
		call func(w *Writer, ctx context.Context) error
	}{
		{"AddFile", func(w *Writer, ctx context.Context) error {
			return w.AddFile(ctx, &endlessFile{})
		}},
		{"Flush", func(w *Writer, ctx context.Context) error {
			return errors.Join(w.AddFile(context.Background(), bytes.NewReader(make([]byte, 1000))), w.Flush(ctx))
		}},
		{"Close", func(w *Writer, ctx context.Context) error {
			return errors.Join(w.AddFile(context.Background(), bytes.NewReader(make([]byte, 1000))), w.Close(ctx))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWriter(hangingSink{}, Options{maxXorbSize: 1 << 20})
			why := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
			within(t, func() {
				if err := tt.call(w, ctx); !errors.Is(err, why) {
					t.Errorf("error = %v, want %v", err, why)
				}
				if err := w.AddFile(t.Context(), bytes.NewReader(nil)); !errors.Is(err, why) {
					t.Errorf("AddFile = %v, want %v", err, why)
				}
				if err := w.Close(t.Context()); !errors.Is(err, why) {
					t.Errorf("Close = %v, want %v", err, why)
				}
			})
		})
	}
}

// hangingSink is a Sink that waits for its context.
type hangingSink struct{ *memory }

func (hangingSink) PutXorb(ctx context.Context, _ *xorb.Info, _ []byte) error {
	<-ctx.Done()
	return ctx.Err()
}

// endlessFile is a file that never ends and never repeats.
type endlessFile struct{ n uint64 }

func (e *endlessFile) Read(b []byte) (int, error) {
	e.n++
	return copy(b, codectest.Bytes(e.n, len(b))), nil
}

// A call whose context has ended stores nothing more and leaves no goroutine, wherever
// the session stood.
func TestCanceled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sink := newMemory()
		s := newSession(t, sink, Options{maxXorbSize: 150_000, FlushBytes: 200_000})
		files := rapid.IntRange(0, 20).Draw(t, "files")
		for i := range files {
			s.add(codectest.Bytes(uint64(i), 30_000))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cut := rapid.IntRange(0, 1<<20).Draw(t, "canceled at")
		r := io.MultiReader(bytes.NewReader(codectest.Bytes(99, cut)), readFunc(func([]byte) (int, error) {
			cancel()
			return 0, io.EOF
		}))
		within(t, func() {
			if err := s.w.AddFile(ctx, r); !errors.Is(err, context.Canceled) {
				t.Errorf("AddFile = %v, want %v", err, context.Canceled)
			}
			if err := s.w.AddFile(t.Context(), r); !errors.Is(err, context.Canceled) {
				t.Errorf("AddFile after that = %v, want %v", err, context.Canceled)
			}
			if err := s.w.Close(t.Context()); !errors.Is(err, context.Canceled) {
				t.Errorf("Close = %v, want %v", err, context.Canceled)
			}
		})
		checkTold(t, s)
	})
}

// A reader that fails in the middle leaves its file out; the files around it are stored.
// Chunks of it may be stored, and later files may use them.
func TestReaderFails(t *testing.T) {
	s := newSession(t, newMemory(), Options{maxXorbSize: 1 << 20})
	whole := codectest.Bytes(1, 4<<20)
	s.add(codectest.Bytes(2, 100_000))
	s.addBroken(whole[:3<<20])
	s.addBroken(nil)
	s.add(whole)
	s.addBroken(whole)
	c := s.close()
	if st := s.w.Stats(); st.NewBytes != 100_000+4<<20 {
		t.Errorf("%d new bytes", st.NewBytes)
	}
	for _, shard := range c.shards {
		if len(shard.files) != 2 {
			t.Errorf("%d files are described, want 2", len(shard.files))
		}
	}
}

// An error that wraps io.EOF is no end of the file.
func TestWrappedEOF(t *testing.T) {
	s := newSession(t, newMemory(), Options{})
	lost := errors.Join(errors.New("connection lost"), io.EOF)
	r := io.MultiReader(bytes.NewReader(make([]byte, 100_000)), readFunc(func([]byte) (int, error) { return 0, lost }))
	if err := s.w.AddFile(t.Context(), r); !errors.Is(err, lost) {
		t.Errorf("AddFile = %v, want %v", err, lost)
	}
	s.close()
}

// A closed Writer says so.
func TestClosed(t *testing.T) {
	s := newSession(t, newMemory(), Options{})
	s.close()
	if err := s.w.AddFile(t.Context(), bytes.NewReader(nil)); !errors.Is(err, errClosed) {
		t.Errorf("AddFile = %v", err)
	}
	if err := s.w.Flush(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("Flush = %v", err)
	}
	if err := s.w.Close(t.Context()); err != nil {
		t.Errorf("Close = %v", err)
	}
}

// Files are readable when Flush returns.
func TestFlush(t *testing.T) {
	s := newSession(t, newMemory(), Options{})
	for i := range 5 {
		s.add(codectest.Bytes(uint64(i), 200_000*i))
		if err := s.w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(s.done) != i+1 {
			t.Errorf("after flush %d, %d files are told of", i, len(s.done))
		}
	}
	s.close()
}
