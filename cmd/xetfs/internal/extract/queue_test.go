package extract

import (
	"testing"

	"github.com/xetfs/xetfs/codec/page"
)

// A lot ends at a number of files or folders, because each folder of a queued file is open.
func TestLots(t *testing.T) {
	for _, tt := range []struct {
		name      string
		inFolder  int // files of each folder
		wantFiles int // of a lot
	}{
		{"one file in each folder", 1, lotFolders},
		{"one folder", 10_000, lotFiles},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := &queue{ctx: t.Context(), lots: make(chan []job, 10_000)}
			const files = 3000
			var in *folder
			for i := range files {
				if i%tt.inFolder == 0 {
					in = &folder{}
				}
				if err := q.collect(job{in, page.Entry{Size: 600}}); err != nil {
					t.Fatal(err)
				}
			}
			queued := len(q.lot)
			close(q.lots)
			for lot := range q.lots {
				if queued += len(lot); len(lot) != tt.wantFiles {
					t.Errorf("a lot has %d files, want %d", len(lot), tt.wantFiles)
				}
			}
			if queued != files {
				t.Errorf("%d files were queued, want %d", queued, files)
			}
		})
	}
}
