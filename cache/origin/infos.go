package origin

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// infoChunkBytes is what an Info holds for each of its chunks: a hash and two ends.
const infoChunkBytes = 40

// infoBytes is what an Info takes in memory, its place in the list included.
func infoBytes(in *xorb.Info) int64 {
	return 256 + infoChunkBytes*int64(len(in.PackedEnd))
}

// infos keeps the infos of the xorbs that were asked for last, up to a number of bytes.
type infos struct {
	max  int64
	load func(ctx context.Context, x codec.Hash) (*xorb.Info, error)

	group singleflight.Group // shared loads

	mu    sync.Mutex
	byAge list.List                    // of *xorb.Info, newest first; guarded by mu
	byKey map[codec.Hash]*list.Element // guarded by mu
	bytes int64                        // guarded by mu
}

// get returns the info of xorb x, from memory or loaded once for all who ask.
func (c *infos) get(ctx context.Context, x codec.Hash) (*xorb.Info, error) {
	if in, ok := c.lookup(x); ok {
		return in, nil
	}
	// The load must not die with the one reader that happened to start it.
	result := c.group.DoChan(string(x[:]), func() (any, error) {
		in, err := c.load(context.WithoutCancel(ctx), x)
		if err == nil {
			c.add(x, in)
		}
		return in, err
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*xorb.Info), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *infos) lookup(x codec.Hash) (*xorb.Info, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[x]
	if !ok {
		return nil, false
	}
	c.byAge.MoveToFront(e)
	return e.Value.(*entry).info, true
}

// An entry is an info under the hash it was asked for by.
type entry struct {
	xorb codec.Hash
	info *xorb.Info
}

func (c *infos) add(x codec.Hash, in *xorb.Info) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byKey[x]; ok {
		return
	}
	c.byKey[x] = c.byAge.PushFront(&entry{x, in})
	c.bytes += infoBytes(in)
	for c.bytes > c.max && c.byAge.Len() > 1 {
		c.removeLocked(c.byAge.Back())
	}
}

// drop forgets the info of xorb x, which came from a copy that is damaged.
func (c *infos) drop(x codec.Hash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[x]; ok {
		c.removeLocked(e)
	}
}

func (c *infos) removeLocked(e *list.Element) {
	old := c.byAge.Remove(e).(*entry)
	delete(c.byKey, old.xorb)
	c.bytes -= infoBytes(old.info)
}

// loadInfo reads where the chunks of xorb x lie, from its footer or, without one, from
// its chunk headers. A copy that is damaged is passed over if there is another.
func (o *objects) loadInfo(ctx context.Context, x codec.Hash) (*xorb.Info, error) {
	var first error
	for try := 0; ; try++ {
		in, err := o.readInfo(ctx, x)
		if err == nil {
			return in, nil
		}
		if first == nil {
			first = err
		}
		if passing(err) || try >= o.rejectKey(names.XorbKey(x)) {
			return nil, fmt.Errorf("xorb %s: %w", x, first)
		}
	}
}

func (o *objects) readInfo(ctx context.Context, x codec.Hash) (*xorb.Info, error) {
	k := names.XorbKey(x)
	size, err := o.store.Size(ctx, k)
	if err != nil {
		return nil, err
	}
	r := ReaderAt(ctx, o.store, k)
	in, err := xorb.ReadInfo(r, size)
	if errors.Is(err, xorb.ErrNoFooter) {
		return o.walkInfo(ctx, x, size)
	}
	if err != nil {
		return nil, err
	}
	if in.Xorb != x {
		return nil, codec.Corrupt("xorb footer", 0, "it is the footer of xorb %s", in.Xorb)
	}
	return in, nil
}

// walkInfo is readInfo for a xorb without footer. The hashes of its chunks come from
// the CAS Info of a shard, if one is known that has them.
func (o *objects) walkInfo(ctx context.Context, x codec.Hash, size int64) (*xorb.Info, error) {
	in, err := xorb.WalkInfo(ReaderAt(ctx, o.store, names.XorbKey(x)), size)
	if err != nil {
		return nil, err
	}
	if end := int64(in.PackedEnd[in.Len()-1]); end != size {
		return nil, codec.Corrupt("xorb", end, "%d bytes behind the last chunk are not a footer", size-end)
	}
	in.Xorb = x
	in.Chunks, err = o.casHashes(ctx, in)
	return in, err
}

// casHashes returns the chunk hashes of a xorb as a shard lists them, after checking
// that they make the xorb's hash; nil if no shard is known that lists them.
func (o *objects) casHashes(ctx context.Context, in *xorb.Info) ([]codec.Hash, error) {
	var first error
	for _, s := range o.listers(in.Xorb) {
		block, err := o.xorbInfo(ctx, s, in.Xorb)
		if errors.Is(err, shard.ErrNoXorb) {
			continue
		}
		var hashes []codec.Hash
		if err == nil {
			hashes, err = checkedHashes(in, block)
		}
		if err == nil {
			return hashes, nil
		}
		if first == nil {
			first = fmt.Errorf("shard %s: %w", s, err)
		}
	}
	return nil, first
}

func (o *objects) xorbInfo(ctx context.Context, s, x codec.Hash) (*shard.XorbInfo, error) {
	r, err := o.openShard(ctx, s)
	if err != nil {
		return nil, err
	}
	if r.Meta().Keyed {
		// Its chunk hashes are keyed: nobody can compare them with anything but
		// chunks, and they would still not add up to the xorb's hash.
		return nil, shard.ErrNoXorb
	}
	return r.XorbInfo(x)
}

// checkedHashes returns the chunk hashes of a CAS Info block if it describes the xorb
// that in was read from.
func checkedHashes(in *xorb.Info, block *shard.XorbInfo) ([]codec.Hash, error) {
	if len(block.Chunks) != in.Len() {
		return nil, codec.Corrupt("cas info block", 0, "lists %d chunks, the xorb has %d", len(block.Chunks), in.Len())
	}
	hashes := make([]codec.Hash, in.Len())
	for i, c := range block.Chunks {
		if end := c.Start + c.Size; end != in.UnpackedEnd[i] {
			return nil, codec.Corrupt("cas info block", 0, "chunk %d ends at unpacked byte %d, in the xorb at %d", i, end, in.UnpackedEnd[i])
		}
		hashes[i] = c.Hash
	}
	checked := *in
	checked.Chunks = hashes
	if root := checked.Root(); root != in.Xorb {
		return nil, codec.Corrupt("cas info block", 0, "its chunks make xorb %s", root)
	}
	return hashes, nil
}
