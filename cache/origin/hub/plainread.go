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
	"github.com/xetfs/xetfs/codec/names"
)

// maxExpired bounds the addresses of one read that have expired.
const maxExpired = 8

// read fills b with the bytes of a file from off on. One read of the file requests the address of the
// content from the Hub, and again when it has expired.
func (p *Plain) read(ctx context.Context, f *PlainFile, b []byte, off int64, progress func(n int)) (err error) {
	path := p.repo.current().resolve(f.Commit, f.Path)
	to := p.address(f.Hash())
	q := fetch.Request{
		Key: names.Key("content"), URL: p.repo.endpoint.String() + path, Prepare: p.repo.auth.authorize,
		Redirected: &to.Redirected,
	}
	for done, tries := 0, 0; ; tries++ {
		err = to.share(ctx, func(answered func()) error {
			if !to.Known() {
				if err := p.repo.pacer.wait(ctx, path); err != nil {
					return err
				}
			}
			from := done
			return p.repo.client.ReadAt(ctx, q, b[from:], off+int64(from), func(n int) {
				answered()
				done = from + n
				progress(done)
			})
		})
		if !errors.Is(err, fetch.ErrExpired) || tries == maxExpired {
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

// A contentAddress is the address of the content of a file, to which the Hub redirects. While it is
// unknown, one read is the first, and others wait for its answer.
type contentAddress struct {
	fetch.Redirected

	mu       sync.Mutex
	first    *firstRead // running; nil: none; guarded by mu
	isDirect bool       // the Hub does not redirect; guarded by mu
}

// A firstRead is a read that requests an address.
type firstRead struct {
	done chan struct{} // closed when the answer has begun or the read has ended
	err  error         // final then
}

// share calls read when the address is known, or as the first read. read calls answered when its answer
// has begun. An error of the first read is that of the others, too.
func (a *contentAddress) share(ctx context.Context, read func(answered func()) error) (err error) {
	first, err := a.begin(ctx)
	if err != nil {
		return err
	}
	defer func() { a.end(first, err) }()
	return read(func() { a.end(first, nil) })
}

// begin waits for another first read, or returns a new one for the caller to end; nil: none is needed.
func (a *contentAddress) begin(ctx context.Context) (*firstRead, error) {
	for {
		a.mu.Lock()
		other := a.first
		isNeeded := other == nil && !a.isDirect && !a.Known()
		if isNeeded {
			a.first = &firstRead{done: make(chan struct{})}
			other = a.first
		}
		a.mu.Unlock()
		if isNeeded || other == nil {
			return other, nil
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if err := other.err; !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			return nil, err
		}
	}
}

// end ends a first read, unless that is nil or has ended.
func (a *contentAddress) end(first *firstRead, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if first == nil || a.first != first {
		return
	}
	a.first, a.isDirect = nil, err == nil && !a.Known()
	first.err = err
	close(first.done)
}
