package web

import (
	"context"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/codec/names"
)

// ReadAt implements origin.Store.
func (s *Store) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	return s.ReadAtProgress(ctx, k, p, off, func(int) {})
}

// ReadAtProgress implements origin.ProgressReader.
func (s *Store) ReadAtProgress(ctx context.Context, k names.Key, p []byte, off int64, progress func(n int)) error {
	return s.find(ctx, k, func(r fetch.Request) error { return s.client.ReadAt(ctx, r, p, off, progress) })
}

// Size implements origin.Store.
func (s *Store) Size(ctx context.Context, k names.Key) (size int64, err error) {
	err = s.find(ctx, k, func(r fetch.Request) error {
		size, err = s.client.Size(ctx, r)
		return err
	})
	return size, err
}

// ReadPart implements origin.PartReader.
func (s *Store) ReadPart(ctx context.Context, k names.Key, off int64, n int) (part origin.Part, err error) {
	err = s.find(ctx, k, func(r fetch.Request) error {
		part, err = s.client.ReadPart(ctx, r, off, n)
		return err
	})
	return part, err
}

// ReadWhole implements origin.WholeReader.
func (s *Store) ReadWhole(ctx context.Context, k names.Key, off int64, take func(b []byte, size int64) error) error {
	return s.find(ctx, k, func(r fetch.Request) error { return s.client.ReadWhole(ctx, r, off, take) })
}

// CheckRanges implements origin.RangeChecker.
func (s *Store) CheckRanges(ctx context.Context, k names.Key) error {
	return s.find(ctx, k, func(r fetch.Request) error {
		if ok, err := s.client.SupportsRanges(ctx, r); ok || err != nil {
			return err
		}
		return origin.ErrNoRanges
	})
}
