package mirror_test

import (
	"context"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/mirror"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// A panicStore panics at every read.
type panicStore struct{ origin.Store }

// ReadAt implements origin.Store.
func (panicStore) ReadAt(context.Context, names.Key, []byte, int64) error { panic("in ReadAt") }

// Size implements origin.Store.
func (panicStore) Size(context.Context, names.Key) (int64, error) { panic("in Size") }

// A panic of the store is the error of Fetch.
func TestPanicOfFetch(t *testing.T) {
	m := mirror.New(panicStore{origintest.Memory()}, mirror.OpenFolder(t.TempDir(), 1<<20), nil)
	shards := []origin.Item{{Key: names.ShardKey(codec.Hash{1}), Size: 100}, {Key: names.ShardKey(codec.Hash{2}), Size: 100}}
	if _, err := m.Fetch(t.Context(), shards); err == nil || !strings.Contains(err.Error(), "panic") {
		t.Errorf("Fetch = %v", err)
	}
}
