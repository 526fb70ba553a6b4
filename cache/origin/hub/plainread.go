package hub

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/codec"
)

// maxExpired is how many addresses of other reads may expire before a read requests its own. A server may
// permit few requests with one address.
const maxExpired = 2

// read fills b with the bytes of a file from off on. If the Hub no longer has its commit, read continues with a
// newer commit that has the file.
func (p *Plain) read(ctx context.Context, f *PlainFile, b []byte, off int64, progress func(n int)) error {
	done := 0
	err := p.readCommit(ctx, f, b, off, func(n int) {
		done = n
		progress(n)
	})
	if errors.Is(err, iofs.ErrNotExist) && !errors.Is(err, ErrRepoNotFound) {
		if newer := p.relocate(ctx, f); newer.Commit != f.Commit {
			from := done
			err = p.readCommit(ctx, &newer, b[from:], off+int64(from), func(n int) { progress(from + n) })
		}
	}
	if errors.Is(err, iofs.ErrNotExist) { // the name exists in the listing
		return fmt.Errorf("%w: %v", origin.ErrNotFound, err) //nolint:errorlint // see above
	}
	return err
}

// relocate searches a file again whose commit the Hub no longer has. It returns f if no other place is known.
func (p *Plain) relocate(ctx context.Context, f *PlainFile) PlainFile {
	file := f.Hash()
	p.mu.Lock()
	if known, ok := p.known.Get(file); ok && known.Commit == f.Commit { // else another read has relocated it
		p.known.Remove(file)
		p.addresses.Remove(file)
	}
	p.mu.Unlock()
	if newer, err := p.locate(ctx, file); err == nil {
		return newer
	}
	return *f
}

// readCommit is read for the commit of f. One read of the file requests the address of the content from the
// Hub, and again when it has expired.
func (p *Plain) readCommit(ctx context.Context, f *PlainFile, b []byte, off int64, progress func(n int)) (err error) {
	q := p.repo.request("content", p.repo.current().resolve(f.Commit, f.Path))
	q.Names, q.Redirected = false, p.address(f.Hash())
	done := 0
	for expired := 0; ; expired++ {
		if expired == maxExpired {
			q.Redirected = new(fetch.Redirected)
		}
		from := done
		err = p.repo.client.ReadAt(ctx, q, b[from:], off+int64(from), func(n int) {
			done = from + n
			progress(done)
		})
		if !errors.Is(err, fetch.ErrExpired) || expired == maxExpired {
			break
		}
	}
	return unwrapStatus(err)
}

// address returns the address of the content of a file, as far as it is known.
func (p *Plain) address(file codec.Hash) *fetch.Redirected {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.addresses.Get(file); ok {
		return a
	}
	return p.addresses.Add(file, new(fetch.Redirected), 1)
}
