package wrap_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/wrap"
	"github.com/xetfs/xetfs/codec"
)

var one = codec.ChunkRange{End: 1}

// Decorators keep every promise of the Source below them.
func TestDecorators(t *testing.T) {
	tests := map[string]func(src origin.Source) origin.Source{
		"Count": func(src origin.Source) origin.Source { return wrap.Count(src, new(wrap.Counts)) },
		"Limit": func(src origin.Source) origin.Source { return wrap.Limit(src, 3) },
		"Log":   func(src origin.Source) origin.Source { return wrap.Log(src, slog.New(slog.DiscardHandler)) },
		"Fail":  func(src origin.Source) origin.Source { return origintest.Fail(src, "") },
	}
	for name, decorate := range tests {
		t.Run(name, func(t *testing.T) {
			origintest.TestSource(t, func(t *testing.T, s origin.Store) origin.Source {
				return decorate(objects.New(s, objects.Options{}))
			})
		})
	}
}

// Decorators forward the methods that they do not change.
func TestDecoratorsForward(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	f := b.Add(origintest.Text(1, 1000), 1000)
	x := b.Xorbs[0]
	s := b.Store()
	local := objects.New(origintest.InMemory(b.LocalStore()), objects.Options{})
	if _, err := local.Chunks(t.Context(), x.Hash(), one, origin.ReadOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, decorate := range map[string]func(src origin.Source) origin.Source{
		"Count": func(src origin.Source) origin.Source { return wrap.Count(src, new(wrap.Counts)) },
		"Limit": func(src origin.Source) origin.Source { return wrap.Limit(src, 3) },
		"Log":   func(src origin.Source) origin.Source { return wrap.Log(src, slog.New(slog.DiscardHandler)) },
	} {
		src := decorate(objects.New(origintest.Copies(s, s, s), objects.Options{}))
		if n := src.Reject(x.Hash()); n != 2 {
			t.Errorf("%s: Reject = %d, want 2", name, n)
		}
		if known, err := src.Hashed(t.Context(), x.Hash(), one); !known || err != nil {
			t.Errorf("%s: Hashed = %v, %v", name, known, err)
		}
		if src.Local() || !decorate(local).Local() {
			t.Errorf("%s: Local is not that of the store", name)
		}
		if _, ok := decorate(local).TryChunks(x.Hash(), one, func(n int) []byte { return make([]byte, n) }); !ok {
			t.Errorf("%s: TryChunks does not read from memory", name)
		}
		if fi, _, err := src.OpenFile(t.Context(), f.ID()); err != nil || fi == nil {
			t.Errorf("%s: OpenFile = %v, %v", name, fi, err)
		}
	}
}

func TestCount(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	f := b.Add(origintest.Text(1, 3000), 1000)
	x := b.Xorbs[0].Hash()
	var c wrap.Counts
	src := wrap.Count(objects.New(b.Store(), objects.Options{}), &c)
	src.FileInfo(t.Context(), f.ID())
	src.FileInfo(t.Context(), codec.FileID{File: codec.Hash{1}})
	src.Narrow(t.Context(), f.ID(), f.Info.Terms[0], codec.Piece{Size: 1})
	run, err := src.Chunks(t.Context(), x, codec.ChunkRange{Start: 1, End: 3}, origin.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	src.Chunks(t.Context(), x, codec.ChunkRange{Start: 3, End: 4}, origin.ReadOptions{})
	if got, want := c.Load(), (wrap.Counts{Requests: 4, Bytes: int64(len(run.Packed)), Errors: 2}); got != want {
		t.Errorf("counts = %+v, want %+v", got, want)
	}
}

func TestLog(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	f := b.Add(origintest.Text(1, 3000), 1000)
	var out bytes.Buffer
	src := wrap.Log(objects.New(b.Store(), objects.Options{}), slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	src.FileInfo(t.Context(), f.ID())
	src.Narrow(t.Context(), f.ID(), f.Info.Terms[0], codec.Piece{Size: 1})
	src.Chunks(t.Context(), f.Info.Terms[0].Xorb, codec.ChunkRange{Start: 1, End: 3}, origin.ReadOptions{})
	src.Chunks(t.Context(), codec.Hash{}, one, origin.ReadOptions{})
	var lines []string
	for line := range strings.Lines(out.String()) {
		_, line, _ = strings.Cut(line, "msg=")
		lines = append(lines, strings.TrimSpace(line))
	}
	wants := [][]string{
		{`"file info"`, "file=" + f.Info.File.String(), "took="},
		{"chunks", "xorb=" + f.Info.Terms[0].Xorb.String(), `chunks="[1, 3)"`, "bytes="},
		{"chunks", "bytes=0", "no such object"},
	}
	if len(lines) != len(wants) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(wants), out.String())
	}
	for i, want := range wants {
		for _, part := range want {
			if !strings.Contains(lines[i], part) {
				t.Errorf("line %d lacks %s: %s", i, part, lines[i])
			}
		}
	}
}
