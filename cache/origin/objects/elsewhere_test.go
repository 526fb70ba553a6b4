package objects_test

import (
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
)

// A file is found in any shard if the shard of its entry is absent or not named (catalog.md,
// section 6.2). The search does not list the store again for each of many files.
func TestFilesElsewhere(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	for i := range 8 {
		b.Add(origintest.Text(uint64(i), 3000), 1000)
	}
	other := origintest.NewBuilder(t, origintest.Form{})
	other.Add(origintest.Text(100, 3000), 1000)
	for place, m := range map[string]origin.WriteStore{"local": b.LocalStore(), "remote": b.Store()} {
		other.Put(m)
		for name, lost := range map[string]codec.Hash{"shard is lost": {1}, "no shard is named": {}} {
			t.Run(place+", "+name, func(t *testing.T) {
				w := origintest.Watch(m)
				src := objects.New(w, objects.Options{})
				for _, f := range b.Files {
					fi, err := src.FileInfo(t.Context(), codec.FileID{File: f.Info.File, Shard: lost, Block: 48})
					if err != nil || fi.File != f.Info.File {
						t.Errorf("FileInfo: %v", err)
					}
				}
				lists := 0
				for _, c := range w.Calls() {
					if c.Op == "List" {
						lists++
					}
				}
				if lists != 1 {
					t.Errorf("the store was listed %d times for %d files, want 1", lists, len(b.Files))
				}
			})
		}
	}
}
