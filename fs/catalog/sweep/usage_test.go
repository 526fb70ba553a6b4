package sweep

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
)

// A page of a foreign store names blocks at the end of the largest shards. Memory follows the number
// of files.
func TestUsageOfFarBlocks(t *testing.T) {
	const files = 200
	far := int64(shard.MaxSize/shard.BlockUnit-1) * shard.BlockUnit
	um := newUsageMarker(0)
	b := page.NewBuilder(page.DefaultSizes(), func(_ page.Hash, encoded []byte) error {
		p, err := page.Decode(encoded)
		if err == nil && p.Level() == 0 {
			um.leaf(p)
		}
		return err
	})
	for i := range files {
		e := page.Entry{Path: fmt.Sprintf("%04d", i), Mode: 0o644, Size: 1, ID: codec.FileID{Block: far}}
		binary.LittleEndian.PutUint32(e.ID.File[:], uint32(i+1))
		binary.LittleEndian.PutUint32(e.ID.Shard[:], uint32(i+1))
		if err := b.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for h, s := range um.u.Shards {
		if !s.isLive(far) || s.isLive(0) || s.isLive(far-shard.BlockUnit) {
			t.Errorf("shard %s: the live blocks are %v", h, s.live)
		}
	}
	if n := um.u.Memory(); len(um.u.Shards) != files || n > files*1000 {
		t.Errorf("%d shards take %d bytes", len(um.u.Shards), n)
	}
}
