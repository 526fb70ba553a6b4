package upload

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// PutContents reads files to their ends, one after the other, and stores them in common xorbs and
// shards. It returns one Content per file, in order. The readers should not wait for a client:
// few calls run at a time. ErrFull: the store has no room.
func (s *Store) PutContents(ctx context.Context, sess SessionID, files ...io.Reader) ([]Content, error) {
	if err := s.space.check(ctx, 0); err != nil {
		return nil, err
	}
	if err := s.packs.wait(ctx); err != nil {
		return nil, err
	}
	defer s.packs.free()
	all, err := s.pack(ctx, files...)
	if err == nil {
		s.remember(sess, all) // the commit that sent them needs no receipt
	}
	return all, err
}

// pack chunks, packs and stores files.
func (s *Store) pack(ctx context.Context, files ...io.Reader) ([]Content, error) {
	sink := &leaseSink{s: s}
	var all []Content
	w := pack.NewWriter(sink, pack.Options{
		Known: &leasedIndex{s: s, ctx: ctx, safe: map[codec.Hash]bool{}},
		Done: func(f pack.File) {
			all = append(all, Content{ID: f.ID, SHA256: f.SHA256, Size: f.Size, Chunks: f.Chunks})
		},
	})
	var err error
	for _, r := range files {
		if err = w.AddFile(ctx, r); err != nil {
			break
		}
	}
	if closed := w.Close(ctx); err == nil { // else it is the same error
		err = closed
	}
	if err != nil {
		return nil, full(err)
	}
	if len(all) != len(files) {
		return nil, fmt.Errorf("%d of %d files were stored", len(all), len(files))
	}
	return all, nil
}

// MaxContent returns the most bytes of a body for PutContent: all scratch space.
func (s *Store) MaxContent() int64 { return s.space.scratch }

// PutContent receives a body of up to limit bytes in a scratch file, and stores it as one file. It
// is for clients without hf_xet. length is negative if unknown.
func (s *Store) PutContent(ctx context.Context, sess SessionID, r io.Reader, length, limit int64) (Content, error) {
	if length < 0 && limit > s.MaxContent() || length > s.MaxContent() {
		return Content{}, fmt.Errorf("%w: at most %d bytes without hf_xet", ErrTooLarge, s.MaxContent())
	}
	b, err := s.receive(ctx, r, length, limit)
	if err != nil {
		return Content{}, err
	}
	defer b.Close()
	if err := s.large.wait(ctx); err != nil { // a large file needs some 300 MiB of memory
		return Content{}, err
	}
	defer s.large.free()
	all, err := s.pack(ctx, io.NewSectionReader(b, 0, b.size))
	if err != nil {
		return Content{}, err
	}
	return all[0], s.record(ctx, sess, all)
}

// A leaseSink is a pack.Sink that leases what it stores.
type leaseSink struct{ s *Store }

// PutXorb implements pack.Sink.
func (k *leaseSink) PutXorb(ctx context.Context, in *xorb.Info, body []byte) error {
	_, err := k.s.storeXorb(ctx, in, body)
	return err
}

// PutShard implements pack.Sink.
func (k *leaseSink) PutShard(ctx context.Context, w *shard.Writer) (codec.Hash, error) {
	b, err := w.Encode()
	if err != nil {
		return codec.Hash{}, err
	}
	in, err := shard.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return codec.Hash{}, err
	}
	xorbs, err := xorbsOf(in)
	if err != nil {
		return codec.Hash{}, err
	}
	return k.s.putShard(ctx, w, xorbs)
}

// A leasedIndex is a pack.ChunkIndex that leases the xorbs that it names.
type leasedIndex struct {
	s    *Store
	ctx  context.Context
	safe map[codec.Hash]bool // whether a xorb exists and is leased
}

// Lookup implements pack.ChunkIndex. One goroutine at a time calls it.
func (k *leasedIndex) Lookup(chunk codec.Hash) (codec.Hash, uint32, bool) {
	x, i, ok := k.s.index.lookup(k.ctx, chunk)
	if !ok {
		return x, i, false
	}
	safe, known := k.safe[x]
	if !known {
		missing, err := k.s.o.Leases.Protect(k.ctx, names.XorbKey(x))
		k.s.checkChanged(k.ctx, x)
		safe = err == nil && len(missing) == 0 && !k.s.index.isDamaged(x)
		k.safe[x] = safe
	}
	return x, i, safe
}
