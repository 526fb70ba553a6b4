package codec

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// chunkSet returns the set of ranges such as "3-5 9-10", of which those with a minus sign are
// removed.
func chunkSet(t *testing.T, ranges string) *ChunkSet {
	t.Helper()
	s := new(ChunkSet)
	for word := range strings.FieldsSeq(ranges) {
		change := s.Add
		if rest, ok := strings.CutPrefix(word, "-"); ok {
			word, change = rest, s.Remove
		}
		var r ChunkRange
		if _, err := fmt.Sscanf(word, "%d-%d", &r.Start, &r.End); err != nil {
			t.Fatal(err)
		}
		change(r)
	}
	return s
}

func rangesText(s *ChunkSet, gap, max uint32) string {
	var words []string
	for r := range s.Ranges(gap, max) {
		words = append(words, fmt.Sprintf("%d-%d", r.Start, r.End))
	}
	return strings.Join(words, " ")
}

func TestChunkSetRanges(t *testing.T) {
	const all = MaxXorbChunks
	tests := []struct {
		name     string
		set      string
		gap, max uint32
		want     string
	}{
		{"empty", "", 4, all, ""},
		{"one chunk", "7-8", 0, all, "7-8"},
		{"added in any order", "9-10 3-5 5-6", 0, all, "3-6 9-10"},
		{"across words", "60-70 127-129", 0, all, "60-70 127-129"},
		{"whole xorb", "0-8192", 0, all, "0-8192"},
		{"last chunk", "8191-8192", 9, all, "8191-8192"},
		{"gap is joined", "0-2 6-7", 4, all, "0-7"},
		{"gap is too large", "0-2 7-8", 4, all, "0-2 7-8"},
		{"gaps count singly", "0-1 3-4 6-7", 2, all, "0-7"},
		{"no gap at the end", "0-2 6-7 -6-7", 4, all, "0-2"},
		{"max", "0-10", 0, 4, "0-4 4-8 8-10"},
		{"max counts the gaps", "0-3 4-6", 2, 4, "0-3 4-6"},
		{"max ends within a range", "0-2 3-6", 2, 4, "0-4 4-6"},
		{"removed", "0-200 -63-65 -199-300", 0, all, "0-63 65-199"},
		{"removed again", "5-9 -0-8192", 0, all, ""},
		{"empty range", "5-5 -5-5", 0, all, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := chunkSet(t, tt.set)
			if got := rangesText(s, tt.gap, tt.max); got != tt.want {
				t.Errorf("ranges are %q, want %q", got, tt.want)
			}
			if got, want := s.IsEmpty(), tt.want == ""; got != want {
				t.Errorf("IsEmpty = %t, want %t", got, want)
			}
		})
	}
}

// The loop may end early, and may remove what it got.
func TestChunkSetRangesLoop(t *testing.T) {
	s := chunkSet(t, "0-10 20-30 40-50")
	for r := range s.Ranges(0, MaxXorbChunks) {
		s.Remove(r)
		if r.Start == 20 {
			break
		}
	}
	if got := rangesText(s, 0, MaxXorbChunks); got != "40-50" {
		t.Errorf("left are %q, want 40-50", got)
	}
}

// Random sets are compared with a map of chunks.
func TestChunkSetRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		s, model := new(ChunkSet), map[uint32]bool{}
		for range 20 {
			start, add := r.Uint32N(MaxXorbChunks), r.IntN(3) > 0
			change := ChunkRange{Start: start, End: min(MaxXorbChunks, start+r.Uint32N(300))}
			if add {
				s.Add(change)
			} else {
				s.Remove(change)
			}
			for i := change.Start; i < change.End; i++ {
				if add {
					model[i] = true
				} else {
					delete(model, i)
				}
			}
		}
		start := r.Uint32N(MaxXorbChunks)
		part := ChunkRange{Start: start, End: start + r.Uint32N(MaxXorbChunks-start)}
		want := 0
		for i := part.Start; i < part.End; i++ {
			if model[i] {
				want++
			}
		}
		if got := s.Count(part); got != want {
			t.Fatalf("Count(%v) = %d, want %d", part, got, want)
		}
		gap, most := r.Uint32N(100), 1+r.Uint32N(500)
		if got, want := slices.Collect(s.Ranges(gap, most)), modelRanges(model, gap, most); !slices.Equal(got, want) {
			t.Fatalf("Ranges(%d, %d) = %v, want %v", gap, most, got, want)
		}
	}
}

func modelRanges(model map[uint32]bool, gap, most uint32) (all []ChunkRange) {
	for i := range uint32(MaxXorbChunks) {
		if !model[i] {
			continue
		}
		last := len(all) - 1
		if last < 0 || i-all[last].End > gap || i-all[last].Start >= most {
			all = append(all, ChunkRange{Start: i, End: i + 1})
			continue
		}
		all[last].End = i + 1
	}
	return all
}

func BenchmarkChunkSetRanges(b *testing.B) {
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		var s ChunkSet
		s.Add(ChunkRange{Start: 1000, End: 1016})
		s.Remove(ChunkRange{Start: 1004, End: 1006})
		for r := range s.Ranges(1, MaxXorbChunks) {
			n += r.Len()
		}
	}
	if n == 0 {
		b.Error("no ranges")
	}
}
