package main

import (
	"context"
	"strings"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// runFrom publishes the tree that --from names.
func (p *publishing) runFrom(ctx context.Context) error {
	from, err := p.source()
	if err != nil {
		return err
	}
	w, err := openWriting(p.cmd, p.storePath)
	if err != nil {
		return err
	}
	defer w.close()
	r, err := p.publishAgain(ctx, w.Writer, from)
	if err == nil {
		writeListing(ctx, w.store, nil, p.report.Note)
	}
	return p.finish(r, hinted(ctx, w.Catalog(), p.storePath, err))
}

func (p *publishing) publishAgain(ctx context.Context, publisher *writer.Writer, from target) (publishResult, error) {
	b, err := p.begin(ctx, publisher)
	if err != nil {
		return publishResult{}, err
	}
	row, err := publisher.Catalog().Resolve(ctx, from.symbol, from.at)
	if err != nil {
		return publishResult{}, err
	}
	r := publishResult{before: b.Head(), published: true}
	if r.before != nil && r.before.Root == row.Root && !p.force {
		r.row, r.published = *r.before, false
		return r, nil
	}
	if r.row, err = b.Republish(ctx, row); err != nil {
		return publishResult{}, err
	}
	return r, p.compare(ctx, publisher.Catalog(), &r)
}

// source reads --from: SYMBOL[@AS_OF], or ver:HASH alone.
func (p *publishing) source() (target, error) {
	if strings.HasPrefix(p.from, "ver:") {
		at, err := names.ParseAsOf(p.from)
		if err != nil {
			return target{}, usageError{err}
		}
		return target{p.symbol, at}, nil
	}
	return parseTarget(p.from)
}
