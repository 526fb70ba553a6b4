package hub

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"sync"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/codec"
)

// maxExpired is how many addresses of other reads may expire before a read requests its own. A server may
// permit few requests with one address.
const maxExpired = 2

// read fills b with the bytes of a file from off on. One read of the file requests the address of the
// content from the Hub, and again when it has expired.
func (p *Plain) read(ctx context.Context, f *PlainFile, b []byte, off int64, progress func(n int)) (err error) {
	path := p.repo.current().resolve(f.Commit, f.Path)
	to := p.address(f.Hash())
	q := p.repo.request("content", path)
	q.Names, q.Redirected = false, &to.Redirected
	done := 0
	for expired := 0; ; expired++ {
		if expired == maxExpired {
			to = new(contentAddress)
			q.Redirected = &to.Redirected
		}
		err = to.share(ctx, func(answered func()) error {
			from := done
			return p.repo.client.ReadAt(ctx, q, b[from:], off+int64(from), func(n int) {
				answered()
				done = from + n
				progress(done)
			})
		})
		if !errors.Is(err, fetch.ErrExpired) || expired == maxExpired {
			break
		}
	}
	err = unwrapStatus(err)
	if errors.Is(err, iofs.ErrNotExist) { // the name exists in the listing
		return fmt.Errorf("%w: %v", origin.ErrNotFound, err) //nolint:errorlint // see above
	}
	return err
}

// address returns the address of the content of a file, as far as it is known.
func (p *Plain) address(file codec.Hash) *contentAddress {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.addresses.Get(file); ok {
		return a
	}
	return p.addresses.Add(file, new(contentAddress), 1)
}

// A contentAddress is the address of the content of a file, to which the Hub redirects.
type contentAddress struct {
	fetch.Redirected

	mu    sync.Mutex
	first *firstRead // running; nil: none; guarded by mu
}

// A firstRead is a read that requests an address. Other reads wait for its answer.
type firstRead struct {
	done chan struct{} // closed when the answer has begun or the read has ended
	err  error         // final then
}

// share calls read: as the first read if the address is unknown, or after the answer to that. read calls
// answered when its answer has begun. An error of the first read is that of the others, too.
func (a *contentAddress) share(ctx context.Context, read func(answered func()) error) (err error) {
	a.mu.Lock()
	first := a.first
	isFirst := first == nil && !a.Known()
	if isFirst {
		first = &firstRead{done: make(chan struct{})}
		a.first = first
	}
	a.mu.Unlock()
	switch {
	case isFirst:
		defer func() { a.end(first, err) }()
		return read(func() { a.end(first, nil) })
	case first == nil:
		return read(func() {})
	}
	select {
	case <-first.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	switch err := first.err; {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return a.share(ctx, read) // its caller has left
	case err != nil:
		return err
	}
	return read(func() {})
}

// end ends a first read.
func (a *contentAddress) end(first *firstRead, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first == first { // it has not ended before
		a.first, first.err = nil, err
		close(first.done)
	}
}
