package catalog

import (
	"context"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// A damagedCopy is a store behind a cache that has a damaged copy of an object.
type damagedCopy struct {
	origin.Store
	value []byte
}

// Get implements origin.Store.
func (d damagedCopy) Get(ctx context.Context, _ names.Key, _ origin.Tag) ([]byte, origin.Tag, error) {
	if origin.IsNoCache(ctx) {
		return d.value, "good", nil
	}
	return append([]byte("x"), d.value[1:]...), "bad", nil
}

// The second read of a damaged document does not get the same copy.
func TestReadDocumentPastCaches(t *testing.T) {
	t.Parallel()
	ref := &names.Ref{Symbol: "org/model", Seq: 1, Head: names.VersionKey(&names.Version{Symbol: "org/model", Seq: 1, Time: time.Unix(1700000000, 0)}, []byte("v"))}
	value, err := names.Encode(ref)
	if err != nil {
		t.Fatal(err)
	}
	got := new(names.Ref)
	tag, err := ReadDocument(t.Context(), damagedCopy{value: value}, names.RefKey("org/model"), "", got)
	if err != nil || tag != "good" || got.Head != ref.Head {
		t.Errorf("%+v, tag %s, %v", got, tag, err)
	}
}
