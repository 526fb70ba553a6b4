package verify

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// Catalog reports an entry that differs from its shard, as sweep.Check does. The shard, the pages
// and the version are sound by themselves.
func TestCatalogReportsEntries(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(e, other *page.Entry)
		want   string // "" if the entry is sound
	}{
		{"as it is", func(_, _ *page.Entry) {}, ""},
		{"other size", func(e, _ *page.Entry) { e.Size++ }, "the entry says 3001"},
		{"other SHA-256", func(e, _ *page.Entry) { e.SHA256 = new([32]byte{1}) }, "its SHA-256 is "},
		{"other file", func(e, _ *page.Entry) { e.ID.File[0] ^= 1 }, "it is of file "},
		{"block of another file", func(e, other *page.Entry) { e.ID.Block = other.ID.Block }, "it is of file "},
		{"no block there", func(e, _ *page.Entry) { e.ID.Block += 48 }, "no file begins here"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := origintest.Memory()
			entries := storeFiles(t, store)
			tt.change(&entries[2], &entries[3])
			publishEntries(t, store, entries)
			findings := 0
			found := func(sweep.Finding) { findings++ }
			if _, err := sweep.Check(t.Context(), store, origin.Pages(store), sweep.CheckOptions{Found: found}); err != nil {
				t.Fatal(err)
			}
			var r faultReport
			if _, err := Catalog(t.Context(), store, &r); err != nil {
				t.Fatal(err)
			}
			if len(r.faults) != findings || (len(r.faults) > 0) != (tt.want != "") {
				t.Fatalf("Catalog has the faults %q, Check has %d", r.faults, findings)
			}
			for _, line := range r.faults {
				if !strings.Contains(line, ": entry s@0 b: ") || !strings.Contains(line, tt.want) {
					t.Errorf("fault %q, want %q", line, tt.want)
				}
			}
		})
	}
}

// storeFiles stores three files of one shard and returns a root with an entry for each.
func storeFiles(t *testing.T, store origin.WriteStore) []page.Entry {
	t.Helper()
	b := origintest.NewBuilder(t, origintest.Form{})
	for i := range uint64(3) {
		b.File(b.Xorb(origintest.Text(i, 3000)).Term(0, 1))
	}
	hash := b.Put(store)
	s, err := shard.NewReader(strings.NewReader(string(b.Shard())), int64(len(b.Shard())))
	if err != nil {
		t.Fatal(err)
	}
	entries := []page.Entry{{Type: page.Dir, Mode: 0o755}}
	for i, f := range b.Files {
		info, err := s.FileInfo(f.Info.File)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(f.Bytes())
		entries = append(entries, page.Entry{
			Path: string(rune('a' + i)), Mode: 0o644, Size: int64(len(f.Bytes())), SHA256: &sum,
			ID: codec.FileID{File: f.Info.File, Shard: hash, Block: info.Block},
		})
	}
	return entries
}

// publishEntries makes a catalog with one version of symbol s.
func publishEntries(t *testing.T, store origin.WriteStore, entries []page.Entry) {
	t.Helper()
	w, err := writer.Open(t.Context(), store, origin.Pages(store), writer.Options{Settings: names.DefaultSettings("", time.Time{})})
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.Begin(t.Context(), "s", writer.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Replace(t.Context(), func(yield func(page.Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
