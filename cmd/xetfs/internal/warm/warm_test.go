package warm

import (
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// TestWarmRounds checks that a window ends at a number of files, bytes or terms, and is not empty.
func TestWarmRounds(t *testing.T) {
	w := &Run{windowBytes: 1000}
	file := func(size int64, terms int) plannedFile {
		return plannedFile{file: file{size: size}, info: &shard.FileInfo{Terms: make([]codec.Term, terms)}}
	}
	many := make([]plannedFile, windowFiles+1)
	for i := range many {
		many[i] = file(0, 1)
	}
	for _, tt := range []struct {
		name  string
		files []plannedFile
		want  int
	}{
		{"all", []plannedFile{file(400, 1), file(600, 1)}, 2},
		{"bytes", []plannedFile{file(400, 1), file(601, 1)}, 1},
		{"a large one", []plannedFile{file(5000, 1), file(1, 1)}, 1},
		{"terms", []plannedFile{file(1, windowTerms-1), file(1, 1), file(1, 1)}, 2},
		{"files", many, windowFiles},
	} {
		if n := w.windowLength(tt.files); n != tt.want {
			t.Errorf("%s: %d files, want %d", tt.name, n, tt.want)
		}
	}
}
