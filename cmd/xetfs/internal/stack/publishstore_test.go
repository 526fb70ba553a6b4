package stack

import (
	"testing"

	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/cache/origin/dir"
)

// A countAllSyncer is a folder that counts the calls of SyncAll.
type countAllSyncer struct {
	*dir.Store
	calls int
}

func (s *countAllSyncer) SyncAll() { s.calls++ }

// A publish relies on objects of killed writers. The index of stored chunks, which finds them, makes the
// next Sync include their names.
func TestPublishStoreSyncsAll(t *testing.T) {
	folder, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	store := &countAllSyncer{Store: folder}
	index, err := dedup.Open(t.Context(), &PublishStore{WriteStore: store}, dedup.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	if store.calls != 1 {
		t.Errorf("the index of a publish called SyncAll %d times, want once", store.calls)
	}
}
