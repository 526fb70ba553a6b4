package reconstruct

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
)

func fileInfoOf(terms int) *shard.FileInfo {
	return &shard.FileInfo{Terms: make([]codec.Term, terms)}
}

func TestWhole(t *testing.T) {
	for name, form := range map[string]origintest.Form{
		"footer": {}, "no hashes": {NoFooter: true, NoCASInfo: true, NoVerify: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := origintest.NewBuilder(t, form)
			content := origintest.Text(1, 300_000)
			f := b.Add(content, 1000, 1, 20_000)
			file := open(t, b.Store(), f.ID())
			if err := iotest.TestReader(file.VerifyReader(t.Context(), nil), content); err != nil {
				t.Error(err)
			}
		})
	}
}

// Each way of reading reports a file that does not match one of its hashes. The store is
// remote, so open has not verified the file.
func TestF39_F40_WholeAndCheck(t *testing.T) {
	spoil := func(t *testing.T, s origin.WriteStore, f *origintest.File) {
		x := f.Terms[0].X
		b := bytes.Clone(x.Bytes)
		b[9] ^= 1 // stored as it is
		if err := origintest.Replace(s, x.Key(), b); err != nil {
			t.Fatal(err)
		}
	}
	none := func(*testing.T, origin.WriteStore, *origintest.File) {}
	tests := []struct {
		name   string
		change func(f *origintest.File)
		later  func(t *testing.T, s origin.WriteStore, f *origintest.File)
		whole  string // part of the error; empty: it is good
		check  string
	}{
		{"good", func(*origintest.File) {}, none, "", ""},
		{"F39 verification hash", func(f *origintest.File) { f.Info.Verify[3][0] ^= 1 }, none, "term 3: term at byte 0: verification hash of chunks", "verification hash of chunks"},
		{"F39 SHA-256", func(f *origintest.File) { f.Info.SHA256[0] ^= 1 }, none, "", "SHA-256 of the file is"},
		{"F40 file hash", func(f *origintest.File) { f.Info.File[0] ^= 1 }, none, "its chunks make file", "its chunks make file"},
		{"a term too many", func(f *origintest.File) {
			f.Info.Terms, f.Info.Verify = append(f.Info.Terms, f.Info.Terms[0]), append(f.Info.Verify, f.Info.Verify[0])
		}, none, "its chunks make file", "its chunks make file"},
		{"F37 size of a term", func(f *origintest.File) { f.Info.Terms[3].Size-- }, none, "term 3: term at byte 0: chunks", "the term says"},
		{"F37 chunks of a term", func(f *origintest.File) { f.Info.Terms[5].Chunks.End++ }, none, "term 5:", "term 5:"},
		{"F37 xorb of a term", func(f *origintest.File) { f.Info.Terms[2].Xorb[0] ^= 1 }, none, "no such object", "no such object"},
		{"a chunk", func(*origintest.File) {}, spoil, "term 0: xorb", "chunk 0"},
	}
	for _, tt := range tests {
		for form, o := range map[string]origintest.Form{"footer": {}, "no hashes": {NoFooter: true, NoCASInfo: true}} {
			t.Run(tt.name+" "+form, func(t *testing.T) {
				b, f := small(t, o)
				tt.change(f)
				s := b.Store()
				tt.later(t, s, f)
				src := objects.New(s, objects.Options{Named: true})
				r, done := newReader(t, src, cache.Options{}, Options{})
				defer done()
				file, err := r.Open(t.Context(), codec.FileID{File: f.Info.File, Shard: merkle.Chunk(b.Shard())})
				if err != nil {
					t.Fatal(err)
				}
				whole, check := tt.whole, tt.check
				if o.NoFooter && tt.name == "a chunk" {
					whole, check = "term 0: xorb", "its chunks make xorb"
				}
				w := file.VerifyReader(t.Context(), nil)
				_, err = io.Copy(io.Discard, w)
				judge(t, "Whole", err, whole)
				if _, again := w.Read(make([]byte, 1)); err != nil && again != err {
					t.Errorf("Whole, read again: %v, want the same", again)
				}
				var n int64
				err = r.Check(t.Context(), f.Info, func(some int64) { n += some })
				judge(t, "Check", err, check)
				if err == nil && n != file.Size() {
					t.Errorf("Check told of %d bytes, want %d", n, file.Size())
				}
			})
		}
	}
}

func judge(t *testing.T, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %v, want an error with %q", what, err, want)
	case want != "" && !errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, origin.ErrNotFound):
		t.Errorf("%s: %v is of no kind", what, err)
	}
}

func TestVerified(t *testing.T) {
	tests := []struct {
		name          string
		form          origintest.Form
		noVerify      bool
		first, second string // before and after the file was read whole
	}{
		{"footers", origintest.Form{}, false, "chunk", "chunk"},
		{"cas info", origintest.Form{NoFooter: true}, false, "chunk", "chunk"},
		{"no hashes", origintest.Form{NoFooter: true, NoCASInfo: true}, false, "chunk", "chunk"},
		{"keyed shard", origintest.Form{NoFooter: true, Key: [32]byte{1}}, false, "chunk", "chunk"},
		{"not compared", origintest.Form{}, true, "none", "file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, f := small(t, tt.form)
			r, done := newReader(t, objects.New(b.LocalStore(), objects.Options{}), cache.Options{NoVerify: tt.noVerify}, Options{})
			defer done()
			file, err := r.Open(t.Context(), f.ID())
			if err != nil {
				t.Fatal(err)
			}
			if got := file.Verified(t.Context()); got != tt.first {
				t.Errorf("Verified = %q, want %q", got, tt.first)
			}
			if _, err := io.Copy(io.Discard, file.VerifyReader(t.Context(), nil)); err != nil {
				t.Fatal(err)
			}
			if got := file.Verified(t.Context()); got != tt.second {
				t.Errorf("Verified after Whole = %q, want %q", got, tt.second)
			}
		})
	}
}

// An origin that does not answer now may answer later.
func TestVerifiedLater(t *testing.T) {
	b, f := small(t, origintest.Form{})
	s := b.Store()
	x := f.Terms[1].X
	file := open(t, s, f.ID())
	if err := s.Delete(t.Context(), x.Key()); err != nil {
		t.Fatal(err)
	}
	if got := file.Verified(t.Context()); got != "none" {
		t.Errorf("Verified = %q, want %q", got, "none")
	}
	if err := origintest.Replace(s, x.Key(), x.Bytes); err != nil {
		t.Fatal(err)
	}
	if got := file.Verified(t.Context()); got != "chunk" {
		t.Errorf("Verified later = %q, want %q", got, "chunk")
	}
}

// Unknown chunks of an earlier mount, whose server lied, do not fail a read of a sound server.
func TestVerifyReaderRequestsUnknown(t *testing.T) {
	s, f := large(t, largeChunks)
	dir := t.TempDir()
	m := mountPlan(t, s, dir, Options{})
	m.plan.SetDamage(origintest.Damage{Chunk: func(_ codec.Hash, _ uint32, content []byte) []byte { return otherByte(content) }})
	if _, err := m.handle(t, f.ID()).ReadAt(t.Context(), make([]byte, 8<<16), 10<<16); err != nil {
		t.Fatal(err)
	}
	m.close(t)
	m = mountPlan(t, s, dir, Options{})
	file, err := m.Open(t.Context(), f.ID())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(file.VerifyReader(t.Context(), nil)); err != nil || !bytes.Equal(got, f.Bytes()) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// A parentContext counts the contexts that were made of it and not canceled.
type parentContext struct {
	context.Context
	done     chan struct{}
	children atomic.Int64
}

func (c *parentContext) Done() <-chan struct{} { return c.done }

// AfterFunc is called by package context for each child. The result is called when the child is canceled.
func (c *parentContext) AfterFunc(func()) (stop func() bool) {
	c.children.Add(1)
	return sync.OnceValue(func() bool { c.children.Add(-1); return true })
}

// A VerifyReader that was read to its end leaves nothing in its context.
func TestVerifyReaderEndsItsContexts(t *testing.T) {
	for _, chunks := range []int{1, largeChunks} {
		t.Run(fmt.Sprintf("%d chunks", chunks), func(t *testing.T) {
			s, f := large(t, chunks)
			m := mountPlan(t, s, "", Options{})
			file, err := m.Open(t.Context(), f.ID())
			if err != nil {
				t.Fatal(err)
			}
			ctx := &parentContext{Context: t.Context(), done: make(chan struct{})}
			if _, err := io.Copy(io.Discard, file.VerifyReader(ctx, nil)); err != nil {
				t.Fatal(err)
			}
			if n := ctx.children.Load(); n != 0 {
				t.Errorf("%d contexts are left", n)
			}
		})
	}
}

// The second fetch of a very large file proves it, and stores the hashes of its first chunks alone. Readers get
// no wrong chunk behind them.
func TestSecondFetchStoresFirstHashes(t *testing.T) {
	s, f := large(t, largeChunks)
	m := mountPlan(t, s, "", Options{Strict: true})
	m.suspects.Add(f.ID(), struct{}{}, 1)
	file := m.handle(t, f.ID()).File() // without readahead
	v := newVerifyReader(t.Context(), file, nil)
	v.refetch()
	v.chunks = maxFetched - batchChunks
	var err error
	for err == nil {
		_, err = v.next()
	}
	v.batches.close()
	if !errors.Is(err, io.EOF) || !file.isProven() {
		t.Fatalf("proven %v, %v", file.isProven(), err)
	}
	for i, leaf := range m.c.Proven(f.Info.Terms[0].Xorb, f.Info.Terms[0].Chunks) {
		if isProven := !leaf.Hash.IsZero(); isProven != (i < batchChunks) {
			t.Errorf("chunk %d is proven: %v", i, isProven)
		}
	}
	m.plan.SetDamage(wrongChunk(f.Info.Terms[0].Xorb, largeChunks-1, 0))
	if err := tryRead(t.Context(), file, f.Bytes(), (largeChunks-1)<<16, 10); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("a read of a wrong chunk: %v", err)
	}
	m.plan.SetDamage(origintest.Damage{})
	calls, _ := m.plan.Requests()
	if err := file.Prove(t.Context()); err != nil {
		t.Errorf("a later proof: %v", err)
	}
	if again, _ := m.plan.Requests(); again != calls {
		t.Errorf("%d requests of a later proof", again-calls)
	}
	m.sound(t, f)
}
