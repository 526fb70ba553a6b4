package cache

import (
	"bytes"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/cache/disk"
)

// Index pages come from disk, and a page there that is not what its hash says goes.
func TestPagesOnDisk(t *testing.T) {
	s, dir := index(t, 1000, smallPages), t.TempDir()
	x := store(t, false, 1)
	read := func(what string, reads int64) {
		t.Helper()
		m := mountOn(t, dir, x.src, Options{})
		g := m.Pages(s)
		for h := range s.pages {
			if p, err := g.Page(t.Context(), h); err != nil || !bytes.Equal(p.Encoded(), s.pages[h]) {
				t.Errorf("%s: Page = %v, %v", what, p, err)
			}
		}
		if n := s.reads.Swap(0); n != reads {
			t.Errorf("%s: %d pages were asked for, want %d", what, n, reads)
		}
		if st := m.Stats(); st.PageMisses != reads || st.PageDiskHits != int64(len(s.pages))-reads {
			t.Errorf("%s: stats = %+v", what, st)
		}
		m.close(t)
	}
	read("at first", int64(len(s.pages)))
	read("from disk", 0)

	d := openDisk(t, dir, disk.Options{})
	for i, h := range slices.Concat(s.leaves[:2], s.above) {
		d.DropPage(h)
		if err := d.PutPage(h, s.pages[s.leaves[i+2]]); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	read("forged", int64(2+len(s.above)))
	read("again", 0)
}
