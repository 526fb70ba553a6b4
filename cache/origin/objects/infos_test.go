package objects

import (
	"context"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/metacache"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// All reads look up infos, so a lookup takes no lock.
func TestInfos_NoLockForLookup(t *testing.T) {
	var c infos
	load := func(context.Context, codec.Hash) (*xorb.Info, error) { return new(xorb.Info), nil }
	c.init(1<<20, load, metacache.New(nil, "", false))
	x := codec.Hash{1}
	want, err := c.get(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if got, err := c.get(t.Context(), x); got != want || err != nil {
		t.Errorf("get = %v, %v", got, err)
	}
}
