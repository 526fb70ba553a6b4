package upload

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/xorb"
)

// PutXorb checks a body against its hash and stores the xorb with our footer. It reports whether
// the store lacked the xorb, or had a damaged one. length is that of the body in bytes, or negative
// if unknown. A footer of the client is checked and not stored.
func (s *Store) PutXorb(ctx context.Context, name codec.Hash, r io.Reader, length int64) (inserted bool, err error) {
	limit := int64(maxXorbBody + xorb.FooterSize(codec.MaxXorbChunks))
	b, err := s.receive(ctx, r, length, limit)
	if err != nil {
		return false, err
	}
	defer b.Close()
	if err := checkXorbSize(b, b.size); err != nil {
		return false, err
	}
	if err := s.xorbs.wait(ctx); err != nil {
		return false, err
	}
	defer s.xorbs.free()
	return s.putXorb(ctx, name, b)
}

// putXorb checks a received xorb in memory, and stores it.
func (s *Store) putXorb(ctx context.Context, name codec.Hash, b *body) (inserted bool, err error) {
	packed, free := s.buffer(b.size)
	defer func() {
		if err == nil { // else the store may still read it
			free()
		}
	}()
	if _, err := b.ReadAt(packed, 0); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	in, err := CheckXorb(packed, name)
	if err != nil {
		return false, err
	}
	packed = packed[:in.PackedEnd[in.Len()-1]]
	return s.storeXorb(ctx, in, packed)
}

// storeXorb stores a checked xorb with our footer and leases it. The store then has a sound xorb, which
// deduplication may use.
func (s *Store) storeXorb(ctx context.Context, in *xorb.Info, packed []byte) (inserted bool, err error) {
	if err := s.space.check(ctx, int64(len(packed)+xorb.FooterSize(in.Len()))); err != nil {
		return false, err
	}
	err = s.keep(ctx, names.XorbKey(in.Xorb), func() error {
		again, err := origin.PutXorb(ctx, s.counted, in, packed)
		inserted = inserted || again
		return full(err)
	})
	if inserted {
		s.forgetXorb(in.Xorb)
	}
	if err != nil {
		return false, err
	}
	s.index.setDamaged(in.Xorb, false)
	return inserted, nil
}

// buffer returns memory for a body of n bytes with room for our footer. Large buffers are used again
// after free.
func (s *Store) buffer(n int64) (b []byte, free func()) {
	room := int64(xorb.FooterSize(codec.MaxXorbChunks))
	if n < minPooled {
		return make([]byte, n, n+room), func() {}
	}
	p, ok := s.buffers.Get().(*[]byte)
	if !ok {
		one := make([]byte, maxXorbBody+2*room)
		p = &one
	}
	return (*p)[:n], func() { s.buffers.Put(p) }
}

// minPooled is the least size of a body in a buffer for any xorb.
const minPooled = 4 << 20

// forgetXorb drops what is known of a xorb that was stored anew, maybe packed otherwise.
func (s *Store) forgetXorb(x codec.Hash) {
	s.o.Source.Reject(x)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.infos.Remove(x)
}

// checkXorbSize checks the headers of a xorb: the number of chunks and the sum of their sizes.
// It reads no chunk, and needs no memory.
func checkXorbSize(r io.ReaderAt, size int64) error {
	unpacked := int64(0)
	for c, err := range xorb.Chunks(r, size) {
		switch {
		case errors.Is(err, codec.ErrCorrupt):
			return refuse("%w", err)
		case err != nil:
			return err
		case c.Index >= codec.MaxXorbChunks:
			return refuse("the xorb has more than %d chunks", codec.MaxXorbChunks)
		}
		if unpacked += int64(c.Header.Unpacked); unpacked > codec.MaxXorbSize {
			return refuse("the xorb has more than %d unpacked bytes", codec.MaxXorbSize)
		}
	}
	return nil
}

// CheckXorb checks a whole xorb, with or without a footer. It checks the limits, each header and
// length, the content of each chunk, and the hash of the xorb. Any disagreement is ErrRefused.
func CheckXorb(packed []byte, name codec.Hash) (*xorb.Info, error) {
	r, size := bytes.NewReader(packed), int64(len(packed))
	if err := checkXorbSize(r, size); err != nil {
		return nil, err
	}
	var fault error
	in, err := xorb.Check(r, size, func(err error) {
		if fault == nil {
			fault = err
		}
	})
	switch {
	case fault != nil:
		return nil, refuse("%w", fault)
	case err != nil:
		return nil, err
	case in.Xorb != name:
		return nil, refuse("the xorb has another hash than its path")
	}
	return in, nil
}
