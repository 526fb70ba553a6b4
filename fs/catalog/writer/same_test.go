package writer

import (
	"errors"
	"iter"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// A tree whose content is at another place is the same, unless the store has lost its content.
func TestSameAtAnotherPlace(t *testing.T) {
	for _, tt := range []struct {
		name   string
		verify bool
		lose   func(s origin.WriteStore, old codec.Hash) error
		same   bool
	}{
		{"whole", false, func(origin.WriteStore, codec.Hash) error { return nil }, true},
		{"whole, all pages are read", true, func(origin.WriteStore, codec.Hash) error { return nil }, false},
		{"lost shard", false, func(s origin.WriteStore, h codec.Hash) error { return s.Delete(t.Context(), names.ShardKey(h)) }, false},
		{"corrupt shard", false, func(s origin.WriteStore, h codec.Hash) error {
			return origintest.Replace(s, names.ShardKey(h), []byte("no shard"))
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newFixture(t, origintest.Memory())
			var ids []codec.FileID
			for _, form := range []origintest.Form{{}, {NoFooter: true}} {
				b := origintest.NewBuilder(t, form)
				b.File(b.Xorb(origintest.Text(1, 5000)).All())
				b.Put(d.store)
				ids = append(ids, b.IDs()[0])
			}
			if ids[0].File != ids[1].File || ids[0].Shard == ids[1].Shard {
				t.Fatal(ids)
			}
			publish := func(id codec.FileID) (names.Row, error) {
				s, err := d.Begin(t.Context(), "m", PublishOptions{Verify: tt.verify})
				if err != nil {
					t.Fatal(err)
				}
				return s.ReplaceChanged(t.Context(), entriesAt(id))
			}
			first, err := publish(ids[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.lose(d.store, ids[0].Shard); err != nil {
				t.Fatal(err)
			}
			row, err := publish(ids[1])
			if errors.Is(err, ErrSame) != tt.same || !tt.same && (err != nil || row.Identity != first.Identity || row.Root == first.Root) {
				t.Errorf("%+v, %v", row, err)
			}
		})
	}
}

// entriesAt yields a tree of one file at a place.
func entriesAt(id codec.FileID) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		_ = yield(entryOf("/"), nil) && yield(page.Entry{Path: "a", Mode: 0o644, ModTime: mtime, Size: 5000, ID: id}, nil)
	}
}
