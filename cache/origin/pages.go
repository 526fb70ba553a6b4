package origin

import (
	"context"
	"fmt"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// Pages reads index pages from a Store and checks their hashes.
func Pages(s Store) page.Getter { return pages{s} }

type pages struct{ store Store }

// Page implements page.Getter.
func (p pages) Page(ctx context.Context, h page.Hash) (*page.Page, error) {
	k := names.PageKey(h)
	b, _, err := p.store.Get(ctx, k, "")
	if err != nil {
		return nil, err
	}
	decoded, err := page.DecodeAs(h, b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k, err)
	}
	return decoded, nil
}
