package fs

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/reconstruct"
)

// moved replaces the place of a file by the present one. It reports whether they differ: a repack
// has moved the file, and a sweep may have deleted the objects at the old place.
func (vr *version) moved(ctx context.Context, e *page.Entry) bool {
	t, ok := vr.tree.(catalog.Mover)
	if !ok {
		return false
	}
	for searched := false; ; searched = true {
		now, err := vr.Lookup(ctx, e.Path)
		if err == nil && now.ID.File == e.ID.File && now.ID != e.ID {
			e.ID = now.ID
			return true
		}
		if searched || !t.Move(ctx) {
			return false
		}
	}
}

// openMovable opens a file for reads. After a read that misses an object, the reader continues at
// the present place of the file.
func (f *filesystem) openMovable(ctx context.Context, from *version, e *page.Entry) (rangeReader, error) {
	r, err := f.openReader(ctx, e)
	if errors.Is(err, origin.ErrNotFound) && from.moved(ctx, e) {
		r, err = f.openReader(ctx, e)
	}
	u, ok := r.(unprovenReader)
	if _, moves := from.tree.(catalog.Mover); err != nil || !moves || !ok || u.NeedsProof() {
		return r, err
	}
	m := &movableReader{files: f, from: from}
	m.now.Store(&placedReader{r, u, *e})
	return m, nil
}

// A movableReader reads a file of a store that can be repacked.
type movableReader struct {
	files *filesystem
	from  *version
	now   atomic.Pointer[placedReader]
	moves flight.Group[*placedReader, *placedReader]
}

// A placedReader reads a file at one place. Both readers are the same.
type placedReader struct {
	rangeReader
	unprovenReader
	entry page.Entry
}

// ReadAt implements rangeReader.
func (m *movableReader) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	r := m.now.Load()
	n, err := r.ReadAt(ctx, p, off)
	for errors.Is(err, origin.ErrNotFound) {
		if r = m.after(ctx, r); r == nil {
			break
		}
		n, err = r.ReadAt(ctx, p, off)
	}
	return n, err
}

// after returns the reader that takes the place of old; nil: no other place. Concurrent reads share the
// search.
func (m *movableReader) after(ctx context.Context, old *placedReader) *placedReader {
	next, err := m.moves.Do(ctx, old, func(ctx context.Context) (*placedReader, error) { return m.next(ctx, old) })
	if err != nil {
		return nil
	}
	return next
}

// next returns the reader that takes the place of old; nil: the file has no other place.
func (m *movableReader) next(ctx context.Context, old *placedReader) (*placedReader, error) {
	if now := m.now.Load(); now != old {
		return now, nil
	}
	e := old.entry
	if !m.from.moved(ctx, &e) {
		return nil, nil //nolint:nilnil // no other place
	}
	r, err := m.files.openReader(ctx, &e)
	if err != nil {
		return nil, err
	}
	u, ok := r.(unprovenReader)
	if !ok {
		return nil, r.Close()
	}
	if m.now.CompareAndSwap(old, &placedReader{r, u, e}) {
		r = old // which no later read uses
	}
	return m.now.Load(), r.Close()
}

// Close implements rangeReader.
func (m *movableReader) Close() error { return m.now.Load().Close() }

// File implements unprovenReader.
func (m *movableReader) File() *reconstruct.File { return m.now.Load().File() }

// KeepsPages implements unprovenReader.
func (m *movableReader) KeepsPages(ino uint64) bool { return m.now.Load().KeepsPages(ino) }

// NeedsProof implements unprovenReader.
func (m *movableReader) NeedsProof() bool { return m.now.Load().NeedsProof() }

// CheckSHA256 implements unprovenReader.
func (m *movableReader) CheckSHA256(ctx context.Context, want [32]byte) error {
	return m.now.Load().CheckSHA256(ctx, want)
}

// LearnSHA256 implements unprovenReader.
func (m *movableReader) LearnSHA256(want [32]byte) { m.now.Load().LearnSHA256(want) }

// CompareReadSHA256 implements unprovenReader.
func (m *movableReader) CompareReadSHA256(sum, want [32]byte) error {
	return m.now.Load().CompareReadSHA256(sum, want)
}
