package origin

import (
	"context"
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// Pages reads index pages from a Store and checks them: their hashes, and then whether
// they are pages. It does not cache.
//
// A page that is absent, or has another hash, is read once more without caches, because a cache
// before the store may be wrong. If the store has more copies, all of them are tried. A page
// with the right hash that does not decode was published that way.
func Pages(s Store) page.Getter { return pages{s} }

type pages struct{ store Store }

// Page implements page.Getter.
func (p pages) Page(ctx context.Context, h page.Hash) (*page.Page, error) {
	k := names.PageKey(h)
	for try := 1; ; try++ {
		got, again, err := p.read(ctx, k, h)
		if !again || try > max(1, p.reject(k)) {
			return got, err
		}
		ctx = NoCache(ctx)
	}
}

// reject marks the page as corrupt in the store, and returns the number of other copies.
func (p pages) reject(k names.Key) int {
	if r, ok := p.store.(KeyRejecter); ok {
		return r.RejectKey(k)
	}
	return 0
}

// read reads a page once. With an error, again reports whether another try may help.
func (p pages) read(ctx context.Context, k names.Key, h page.Hash) (got *page.Page, again bool, err error) {
	b, _, err := p.store.Get(ctx, k, "")
	if err != nil {
		return nil, errors.Is(err, ErrNotFound) || errors.Is(err, codec.ErrCorrupt), err
	}
	got, err = page.DecodeAs(h, b)
	if err == nil {
		return got, false, nil
	}
	if len(b) <= page.MaxSize && page.Sum(b) == h {
		return nil, false, fmt.Errorf("%s: published like this: %w", k, err)
	}
	return nil, true, fmt.Errorf("%s: %w", k, err)
}
