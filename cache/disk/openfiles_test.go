package disk

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
)

func TestMaxOpen(t *testing.T) {
	tests := []struct {
		descriptors uint64
		want        int
	}{{4, 1}, {30, 3}, {64, 8}, {1024, 128}, {4096, 256}, {1 << 63, 256}}
	for _, tt := range tests {
		if got := maxOpen(tt.descriptors); got != tt.want {
			t.Errorf("%d descriptors: %d segments, want %d", tt.descriptors, got, tt.want)
		}
	}
}

// No more segments stay open than the limit, unless all are pinned.
func TestOpenFilesLimit(t *testing.T) {
	dir := t.TempDir()
	d, err := vfs.OpenDir(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	o := openFiles{limit: 2}
	defer o.closeAll()
	var segments []*index.Segment
	for i := range 5 {
		s := &index.Segment{Number: uint32(i + 1)}
		path := filepath.Join(dir, s.Name())
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		segments = append(segments, s)
		if _, err := o.get(d, s); err != nil {
			t.Fatal(err)
		}
		open := 0
		for _, s := range segments {
			if openOf(s) != nil {
				open++
			}
		}
		if open > o.limit {
			t.Errorf("%d segments are open, at most %d may be", open, o.limit)
		}
	}
}
