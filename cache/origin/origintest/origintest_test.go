package origintest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
)

func TestMemory(t *testing.T) {
	for name, empty := range map[string]func() origin.WriteStore{
		"remote": origintest.Memory, "local": origintest.LocalMemory,
	} {
		t.Run(name, func(t *testing.T) {
			origintest.TestStore(t, func(t *testing.T) origin.Store { return filled(t, empty()) })
		})
	}
}

func filled(t *testing.T, s origin.WriteStore) origin.WriteStore {
	for k, value := range origintest.Samples(t) {
		if _, err := s.PutIfAbsent(t.Context(), k, value); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestWatchAndCopies(t *testing.T) {
	origintest.TestStore(t, func(t *testing.T) origin.Store {
		return origintest.Watch(filled(t, origintest.Memory()))
	})
	origintest.TestStore(t, func(t *testing.T) origin.Store {
		s := filled(t, origintest.Memory())
		return origintest.Copies(s, s)
	})
}

func TestFail(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	f := b.Add(origintest.Text(1, 3000), 1000)
	x, first := b.Xorbs[0].Hash(), codec.ChunkRange{End: 1}
	tests := []struct {
		name string
		rule string
		want string // of four calls of Chunks
	}{
		{"no rule", "", "good good good good"},
		{"one call", "chunks 3: unavailable", "good good unavailable good"},
		{"some calls", "chunks 2-3: notfound", "good notfound notfound good"},
		{"from one on", "chunks 3-: corrupt", "good good corrupt corrupt"},
		{"every call", "any: unavailable", "unavailable unavailable unavailable unavailable"},
		{"another method", "narrow: unavailable", "good good good good"},
		{"two clauses", "chunks 1: corrupt; chunks 2: hang", "corrupt timeout good good"},
		{"slow", "chunks: slow 500ms; chunks 4: slow 2s", "good good good timeout"},
		{"panic", "chunks 2: panic", "good panic good good"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := origintest.Fail(objects.New(b.Store(), objects.Options{}), tt.rule)
				var got string
				for i := range 4 {
					if i > 0 {
						got += " "
					}
					got += chunksWord(t, src, x, first)
				}
				if got != tt.want {
					t.Errorf("%q: %s, want %s", tt.rule, got, tt.want)
				}
			})
		})
	}
	if _, err := origintest.Fail(objects.New(b.Store(), objects.Options{}), "fileinfo 1: corrupt").FileInfo(t.Context(), f.ID()); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("FileInfo = %v, want %v", err, codec.ErrCorrupt)
	}
}

// chunksWord calls Chunks and unpacks, and says in a word what happened.
func chunksWord(t *testing.T, src origin.Source, x codec.Hash, r codec.ChunkRange) (word string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	defer func() {
		if recover() != nil {
			word = "panic"
		}
	}()
	run, err := src.Chunks(ctx, x, r, origin.ReadOptions{})
	if err == nil {
		_, err = run.Unpack(r.Start, make([]byte, run.Size(r.Start)))
	}
	for _, kind := range []struct {
		word string
		err  error
	}{
		{"unavailable", origin.ErrUnavailable},
		{"notfound", origin.ErrNotFound},
		{"corrupt", codec.ErrCorrupt},
		{"timeout", context.DeadlineExceeded},
	} {
		if errors.Is(err, kind.err) {
			return kind.word
		}
	}
	if err != nil {
		return err.Error()
	}
	return "good"
}

func TestFailRefusesRules(t *testing.T) {
	for _, rule := range []string{"chunks", "chunks 0: hang", "chunks x: hang", "chunks: explode", "reads: hang", "chunks: slow soon", ": hang"} {
		t.Run(rule, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was understood", rule)
				}
			}()
			origintest.Fail(nil, rule)
		})
	}
}
