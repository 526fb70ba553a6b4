package origin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Sink puts the output of a pack.Writer into a store. A xorb gets a footer, so that any chunk
// can be read without the others, and a shard gets its tables. An existing sound object is left
// as it is. A damaged object is replaced, because a later shard refers to it. Replacing is one
// step of the store: the key never lacks an object. An object that cannot be read is an error
// and stays, because the fault may be the machine's.
func Sink(s WriteStore) pack.Sink { return sink{s} }

type sink struct{ s WriteStore }

// PutXorb implements pack.Sink.
func (k sink) PutXorb(ctx context.Context, in *xorb.Info, body []byte) error {
	_, err := PutXorb(ctx, k.s, in, body)
	return err
}

// PutXorb stores a xorb as a Sink does. It reports whether the store lacked the xorb, or had a
// damaged one. The spare capacity behind body may be overwritten.
func PutXorb(ctx context.Context, s WriteStore, in *xorb.Info, body []byte) (inserted bool, err error) {
	return sink{s}.put(ctx, names.XorbKey(in.Xorb), in.AppendFooter(body), func(object io.ReaderAt, size int64) (bool, error) {
		return IsSoundXorb(object, size, in.Xorb)
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
	if _, err := k.put(ctx, names.ShardKey(h), b, func(io.ReaderAt, int64) (bool, error) { return false, nil }); err != nil {
		return codec.Hash{}, err
	}
	return h, k.s.Sync(ctx)
}

// put puts a value under its key, and reports whether no good object existed. An existing object
// with other bytes must be sound.
func (k sink) put(ctx context.Context, key names.Key, value []byte, sound func(io.ReaderAt, int64) (bool, error)) (inserted bool, err error) {
	_, err = k.s.PutIfAbsent(ctx, key, value)
	if errors.Is(err, ErrUnknown) {
		_, err = k.s.PutIfAbsent(ctx, key, value) // ErrExists if the first put did happen
	}
	if !errors.Is(err, ErrExists) {
		return err == nil, err
	}
	good, err := k.isGood(ctx, key, value, sound)
	switch {
	case good:
		return false, nil
	case err == nil:
		err = k.replace(ctx, key, value)
	}
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, ErrNotFound):
		err = k.putMissing(ctx, key, value) // another process removed it
	case errors.Is(err, ErrUnavailable):
		err = fmt.Errorf("%s: this object exists and cannot be compared or replaced: %w; if the disk has lost it, remove it and try again", key, err)
	}
	return err == nil, err
}

// isGood reports whether the object under key is sound and may stay. An object that cannot be
// read is an error.
func (k sink) isGood(ctx context.Context, key names.Key, value []byte, sound func(io.ReaderAt, int64) (bool, error)) (bool, error) {
	if m, ok := k.s.(Matcher); ok {
		if same, err := m.Matches(ctx, key, value); same || err != nil {
			return same, err
		}
	}
	size, err := k.s.Size(ctx, key)
	if err != nil {
		return false, err
	}
	object := ReaderAt(ctx, k.s, key)
	good := false
	if size == int64(len(value)) {
		good, err = equal(object, value)
	}
	if !good && err == nil {
		good, err = sound(object, size)
	}
	if errors.Is(err, codec.ErrCorrupt) {
		return false, nil
	}
	return good, err
}

// replace puts a value in the place of a damaged one, in one step. A reader always finds one of
// the two, and the damaged one stays after an error.
func (k sink) replace(ctx context.Context, key names.Key, value []byte) error {
	_, tag, err := k.s.Get(ctx, key, "")
	if err != nil {
		return err
	}
	_, err = k.s.PutIfMatch(ctx, key, value, tag)
	if errors.Is(err, ErrConflict) {
		return k.putMissing(ctx, key, value) // another process was faster
	}
	return err
}

// putMissing puts a value under an absent key. If an object exists, another process has put it
// just now, and it is good.
func (k sink) putMissing(ctx context.Context, key names.Key, value []byte) error {
	_, err := k.s.PutIfAbsent(ctx, key, value)
	if errors.Is(err, ErrExists) {
		return nil
	}
	return err
}

// equal reports whether an object begins with the bytes of value.
func equal(object io.ReaderAt, value []byte) (bool, error) {
	buf := make([]byte, min(len(value), 1<<20))
	for off := 0; off < len(value); off += len(buf) {
		part := value[off:min(off+len(buf), len(value))]
		if _, err := object.ReadAt(buf[:len(part)], int64(off)); err != nil {
			return false, err
		}
		if !bytes.Equal(buf[:len(part)], part) {
			return false, nil
		}
	}
	return true, nil
}

// IsSoundXorb reports whether an object is the xorb x, by all its hashes. Another compressor
// may have made other bytes.
func IsSoundXorb(object io.ReaderAt, size int64, x codec.Hash) (bool, error) {
	faults := 0
	in, err := xorb.Check(object, size, func(error) { faults++ })
	return err == nil && faults == 0 && in.Root() == x, err
}
