package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/codec/names"
)

// slots bound how many calls run at a time.
type slots chan struct{}

func newSlots(n int) slots { return make(slots, n) }

// wait takes a slot when one is free.
func (s slots) wait(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slots) free() { <-s }

// A space bounds the bytes of the store and of scratch files.
type space struct {
	store   origin.Store
	quota   int64 // of the store; 0: unlimited
	scratch int64 // of scratch files

	mu       sync.Mutex
	used     int64     // bytes in the store; guarded by mu, as all below
	measured time.Time // when used was listed
	inUse    int64     // bytes that scratch files may take

	released chan struct{} // closed and replaced when inUse becomes less
}

// measurePause is the minimum time between two listings of a full store.
const measurePause = 30 * time.Second

// measure lists the bytes of the store. Without a quota it does nothing.
func (s *space) measure(ctx context.Context) error {
	if s.quota == 0 {
		return nil
	}
	used := int64(0)
	for _, prefix := range []string{names.XorbPrefix, names.ShardPrefix} {
		for item, err := range s.store.List(ctx, prefix, "") {
			if err != nil {
				return fmt.Errorf("size of the store: %w", err)
			}
			used += item.Size
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used, s.measured = used, time.Now()
	return nil
}

// check returns ErrFull if n more bytes exceed the quota. A full store is measured again, because a
// sweep may have made room.
func (s *space) check(ctx context.Context, n int64) error {
	if s.fits(n) {
		return nil
	}
	s.mu.Lock()
	isOld := time.Since(s.measured) >= measurePause
	s.mu.Unlock()
	if isOld {
		if err := s.measure(ctx); err != nil {
			return err
		}
	}
	if s.fits(n) {
		return nil
	}
	return fmt.Errorf("%w: its quota is %d bytes; delete versions and run xetfs catalog sweep", ErrFull, s.quota)
}

func (s *space) fits(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quota == 0 || s.used+n <= s.quota
}

// add counts stored bytes.
func (s *space) add(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used += n
}

// A countStore counts the bytes of the objects that are put. This is the only place that counts, so
// that the sum is that of a listing. A put whose outcome is unknown is counted by the next listing.
type countStore struct {
	origin.WriteStore
	space *space
}

// PutIfAbsent implements origin.WriteStore.
func (s countStore) PutIfAbsent(ctx context.Context, k names.Key, value []byte) (origin.Tag, error) {
	return s.count(ctx, k, value, func() (origin.Tag, error) { return s.WriteStore.PutIfAbsent(ctx, k, value) })
}

// PutIfMatch implements origin.WriteStore.
func (s countStore) PutIfMatch(ctx context.Context, k names.Key, value []byte, tag origin.Tag) (origin.Tag, error) {
	return s.count(ctx, k, value, func() (origin.Tag, error) { return s.WriteStore.PutIfMatch(ctx, k, value, tag) })
}

// count counts a value that put stores, without the object that it replaces. In a folder, PutIfAbsent
// replaces a damaged object of another size.
func (s countStore) count(ctx context.Context, k names.Key, value []byte, put func() (origin.Tag, error)) (origin.Tag, error) {
	if s.space.quota == 0 {
		return put()
	}
	old, err := s.Size(ctx, k)
	switch {
	case errors.Is(err, origin.ErrNotFound):
		old = 0
	case err != nil:
		return "", err
	}
	tag, err := put()
	if err == nil {
		s.space.add(int64(len(value)) - old)
	}
	return tag, err
}

// Matches implements origin.Matcher. Without a Matcher below, the bytes must be read.
func (s countStore) Matches(ctx context.Context, k names.Key, value []byte) (bool, error) {
	if m, ok := s.WriteStore.(origin.Matcher); ok {
		return m.Matches(ctx, k, value)
	}
	return false, nil
}

// reserve reserves bytes for a scratch file. It waits until other files have left enough bytes. Smaller
// files may pass it, because a semaphore would let all uploads wait for a large one.
func (s *space) reserve(ctx context.Context, n int64) error {
	for {
		released := s.tryReserve(n)
		if released == nil {
			return nil
		}
		select {
		case <-released:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryReserve reserves bytes, or returns a channel that is closed when other bytes are released.
func (s *space) tryReserve(n int64) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inUse+n <= s.scratch {
		s.inUse += n
		return nil
	}
	return s.released
}

func (s *space) release(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inUse -= n
	close(s.released)
	s.released = make(chan struct{})
}

// admit waits for a slot and for n bytes of scratch space. After some time it returns ErrBusy.
func (s *Store) admit(ctx context.Context, n int64) error {
	if n > s.space.scratch {
		return ErrBusy
	}
	waiting, stop := context.WithTimeout(ctx, s.o.Wait)
	defer stop()
	err := s.uploads.wait(waiting)
	if err == nil {
		if err = s.space.reserve(waiting, n); err != nil {
			s.uploads.free()
		}
	}
	if err != nil && ctx.Err() == nil {
		return ErrBusy
	}
	return err
}

// A body is a received body in a scratch file.
type body struct {
	dedup.TempFile
	s        *Store
	size     int64
	reserved int64
}

// receive reads a body of up to limit bytes into a scratch file. length is negative if unknown. A
// body that does not fit into the store is ErrFull. Concurrent bodies and their bytes are bounded:
// ErrBusy.
func (s *Store) receive(ctx context.Context, r io.Reader, length, limit int64) (*body, error) {
	if length > limit {
		return nil, fmt.Errorf("%w: the body has %d bytes, at most %d are allowed", ErrTooLarge, length, limit)
	}
	if err := s.space.check(ctx, max(length, 0)); err != nil {
		return nil, err
	}
	b := &body{s: s, reserved: length}
	if length < 0 {
		b.reserved = limit
	}
	if err := s.admit(ctx, b.reserved); err != nil {
		return nil, err
	}
	defer s.uploads.free()
	if err := b.read(r, length, limit); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *body) read(r io.Reader, length, limit int64) (err error) {
	if b.TempFile, err = b.s.tempFile(); err != nil {
		return full(fmt.Errorf("scratch file: %w", err))
	}
	w := io.NewOffsetWriter(b.TempFile, 0)
	b.size, err = io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(r, limit+1), make([]byte, 256<<10))
	switch {
	case err != nil:
		return full(fmt.Errorf("body: %w", err))
	case b.size > limit:
		return fmt.Errorf("%w: the body has more than %d bytes", ErrTooLarge, limit)
	case length >= 0 && b.size != length:
		return refuse("the body ends after %d of %d bytes", b.size, length)
	}
	return nil
}

// Close removes the scratch file.
func (b *body) Close() error {
	b.s.space.release(b.reserved)
	if b.TempFile == nil {
		return nil
	}
	return b.TempFile.Close()
}

// tempFile creates a scratch file, or a file in memory without a scratch folder.
func (s *Store) tempFile() (dedup.TempFile, error) {
	if s.o.TempFile != nil {
		return s.o.TempFile()
	}
	return new(memoryFile), nil
}

// A memoryFile is a TempFile in memory, for tests.
type memoryFile struct{ bytes.Buffer }

// WriteAt implements io.WriterAt. It accepts only bytes at the end.
func (f *memoryFile) WriteAt(p []byte, off int64) (int, error) {
	if off != int64(f.Len()) {
		return 0, errors.ErrUnsupported
	}
	return f.Write(p)
}

// ReadAt implements io.ReaderAt.
func (f *memoryFile) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(f.Bytes()).ReadAt(p, off)
}

// Close implements io.Closer.
func (f *memoryFile) Close() error { return nil }
