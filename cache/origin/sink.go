package origin

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Sink puts what a pack.Writer makes into a store: xorbs with a footer, so that any
// chunk can be read without the others, and shards with their tables. What is there
// already is left as it is if it is sound; a damaged object is replaced, because what
// comes next will point to it.
func Sink(s WriteStore) pack.Sink { return sink{s} }

type sink struct{ s WriteStore }

// PutXorb implements pack.Sink.
func (k sink) PutXorb(ctx context.Context, in *xorb.Info, body []byte) error {
	// The footer goes into the room behind the body, which is ours for now.
	return k.put(ctx, names.XorbKey(in.Xorb), in.AppendFooter(body), func(there io.ReaderAt, size int64) bool {
		return soundXorb(there, size, in.Xorb)
	})
}

// PutShard implements pack.Sink. The xorbs are durable before the shard has its name,
// and the shard is when PutShard returns.
func (k sink) PutShard(ctx context.Context, w *shard.Writer) (codec.Hash, error) {
	b, err := w.Encode()
	if err != nil {
		return codec.Hash{}, err
	}
	h := merkle.Chunk(b)
	if err := k.s.Sync(ctx); err != nil {
		return codec.Hash{}, err
	}
	if err := k.put(ctx, names.ShardKey(h), b, func(io.ReaderAt, int64) bool { return false }); err != nil {
		return codec.Hash{}, err
	}
	return h, k.s.Sync(ctx)
}

// put puts a value under its key. One that is there and differs must be sound.
func (k sink) put(ctx context.Context, key names.Key, value []byte, sound func(io.ReaderAt, int64) bool) error {
	_, err := k.s.PutIfAbsent(ctx, key, value)
	if errors.Is(err, ErrUnknown) {
		_, err = k.s.PutIfAbsent(ctx, key, value) // if the first did happen, this says so
	}
	if !errors.Is(err, ErrExists) {
		return err
	}
	there := ReaderAt(ctx, k.s, key)
	size, err := k.s.Size(ctx, key)
	if err == nil && (size == int64(len(value)) && equal(there, value) || sound(there, size)) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err == nil && size == int64(len(value)) {
		return k.replace(ctx, key, value)
	}
	return k.putAnew(ctx, key, value)
}

// replace puts a value in the place of a damaged one of its size, in one step if it can be
// read: no reader finds nothing, and if it fails the other is left.
func (k sink) replace(ctx context.Context, key names.Key, value []byte) error {
	_, tag, err := k.s.Get(ctx, key, "")
	if err != nil {
		return k.putAnew(ctx, key, value)
	}
	_, err = k.s.PutIfMatch(ctx, key, value, tag)
	if errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) {
		return k.putMissing(ctx, key, value) // somebody else did, or removed it
	}
	return err
}

// putAnew removes what is under a key, and puts a value there.
func (k sink) putAnew(ctx context.Context, key names.Key, value []byte) error {
	if err := k.s.Delete(ctx, key); err != nil {
		return err
	}
	return k.putMissing(ctx, key, value)
}

// putMissing puts a value where nothing is. If something is there, somebody else has put
// it just now, and it is good.
func (k sink) putMissing(ctx context.Context, key names.Key, value []byte) error {
	_, err := k.s.PutIfAbsent(ctx, key, value)
	if errors.Is(err, ErrExists) {
		return nil
	}
	return err
}

// equal says whether an object begins with the bytes of value.
func equal(there io.ReaderAt, value []byte) bool {
	buf := make([]byte, min(len(value), 1<<20))
	for off := 0; off < len(value); off += len(buf) {
		part := value[off:min(off+len(buf), len(value))]
		if _, err := there.ReadAt(buf[:len(part)], int64(off)); err != nil || !bytes.Equal(buf[:len(part)], part) {
			return false
		}
	}
	return true
}

// soundXorb says whether an object is the xorb x, by all its hashes. Another compressor
// may have made other bytes.
func soundXorb(there io.ReaderAt, size int64, x codec.Hash) bool {
	faults := 0
	in, err := xorb.Check(there, size, func(error) { faults++ })
	return err == nil && faults == 0 && in.Root() == x
}
