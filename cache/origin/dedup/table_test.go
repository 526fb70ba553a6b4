package dedup

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// scratchIn returns a maker of scratch files in a folder, and the number of those that
// are open.
func scratchIn(dir string) (func() (TempFile, error), *int) {
	open := new(int)
	return func() (TempFile, error) {
		f, err := os.CreateTemp(dir, "")
		if err != nil {
			return nil, err
		}
		*open++
		return &countedFile{f, open}, os.Remove(f.Name())
	}, open
}

type countedFile struct {
	*os.File
	open *int
}

func (f *countedFile) Close() error {
	*f.open--
	return f.File.Close()
}

// Entries are in files in part, and their words are spread unevenly. The newest place of each
// word is found, and no other word.
func TestKnownIndex(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		scratch, open := scratchIn(dir)
		x := table{scratch: scratch, most: rapid.IntRange(100, 1000).Draw(t, "in memory")}
		want := map[uint64]location{}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		next := rapid.SampledFrom([]func() uint64{
			rng.Uint64,
			func() uint64 { return rng.Uint64N(50) },
			func() uint64 { return math.MaxUint64 - rng.Uint64N(2000) },
			func() uint64 { return 1 << rng.IntN(64) },
		}).Draw(t, "words")
		entries := rapid.IntRange(0, 3000).Draw(t, "entries")
		filled := rapid.IntRange(0, entries).Draw(t, "of them at first")
		x.fill()
		for i := range entries {
			if i == filled {
				if err := x.filled(); err != nil {
					t.Fatal(err)
				}
			}
			word := next()
			if err := x.add(word, chunkAt(uint32(i), 7)); err != nil {
				t.Fatal(err)
			}
			want[word] = chunkAt(uint32(i), 7)
		}
		if filled == entries {
			if err := x.filled(); err != nil {
				t.Fatal(err)
			}
		}
		if rapid.Bool().Draw(t, "merged") {
			if err := x.merge(); err != nil {
				t.Fatal(err)
			}
		}
		for word := range want {
			for _, w := range []uint64{word, word - 1, word + 1} {
				var got []location
				x.find(w, func(p location) bool { got = append(got, p); return true })
				if at, ok := want[w]; ok != (len(got) == 1) || ok && got[0] != at {
					t.Fatalf("find(%#x) = %v, want %v, %t", w, got, at, ok)
				}
			}
		}
		if len(x.runs) >= maxRuns || *open != len(x.runs) {
			t.Fatalf("%d runs, %d files are open", len(x.runs), *open)
		}
		if err := x.close(); err != nil || *open != 0 {
			t.Fatalf("close = %v, %d files are open", err, *open)
		}
	})
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A scratch file that cannot be made or written is an error, and one that cannot be read
// finds nothing.
func TestKnownIndexFaults(t *testing.T) {
	full := errors.New("disk full")
	for fails := range 12 {
		filling := fails%2 == 0
		fails := fails / 2
		made := 0
		x := table{most: 2, scratch: func() (TempFile, error) {
			if made++; made > fails {
				return nil, full
			}
			return &brokenFile{writes: fails - made, err: full}, nil
		}}
		if filling {
			x.fill()
		}
		var err error
		for i := range 100 {
			if err = x.add(uint64(i), location{}); err != nil {
				break
			}
		}
		if !errors.Is(err, full) {
			t.Errorf("add = %v, want %v", err, full)
		}
		x.find(0, func(location) bool { return false })
		if err := x.close(); err != nil {
			t.Errorf("close = %v", err)
		}
	}
}

type brokenFile struct {
	writes int
	err    error
}

func (f *brokenFile) ReadAt([]byte, int64) (int, error) { return 0, f.err }
func (f *brokenFile) Close() error                      { return nil }
func (f *brokenFile) WriteAt(b []byte, _ int64) (int, error) {
	if f.writes--; f.writes < 0 {
		return 0, f.err
	}
	return len(b), nil
}
