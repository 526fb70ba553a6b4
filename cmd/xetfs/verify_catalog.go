package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
)

// checkCatalog checks, where SOURCE is a catalog, that its references, versions and index
// pages are sound and that the shards they need exist. Shards that exist, and xorbs, are
// checked elsewhere. It returns the number of symbols.
func (v *verifier) checkCatalog(ctx context.Context, source string) (symbols int64, err error) {
	var store origin.Store
	if v.place.held != nil {
		store = v.place.held.readStore
	} else {
		folder, err := dir.OpenReadOnly(source)
		if err != nil {
			return 0, err
		}
		defer folder.Close()
		store = folder
	}
	is, err := catalog.Exists(ctx, store)
	if err != nil {
		return 0, err
	}
	if !is {
		return 0, v.checkNoReferences(ctx, store)
	}
	report, err := sweep.Check(ctx, store, origin.Pages(store), sweep.CheckOptions{Found: v.foundInCatalog})
	return report.Symbols, err
}

// checkNoReferences reports a fault if a store without settings has references: it was a
// catalog.
func (v *verifier) checkNoReferences(ctx context.Context, store origin.Store) error {
	for _, err := range store.List(ctx, names.RefPrefix, "") {
		if errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		if err == nil {
			v.report.fault(fault{path: string(names.SettingsKey()), err: errors.New("the settings of the catalog are missing")})
		}
		return err
	}
	return nil
}

// foundInCatalog reports what a check of the catalog found, unless it concerns the content
// of shards and xorbs.
func (v *verifier) foundInCatalog(f sweep.Finding) {
	if f.Hidden {
		return
	}
	k, err := names.ParseKey(f.Key)
	isShard := err == nil && k.Kind == names.ShardKind
	if err == nil && k.Kind == names.XorbKind || isShard && !f.Missing {
		return
	}
	what := fault{path: string(f.Key), err: f.Err}
	if isShard {
		what.kind, what.hash = "shard", codec.Hash(k.Hash)
	}
	if errors.Is(f.Err, origin.ErrNotFound) {
		what.err = errors.New("missing")
	}
	if f.Symbol != "" {
		needed := fmt.Sprintf("%s@%d", f.Symbol, f.Version)
		if f.Path != "" {
			needed += " " + f.Path
		}
		what.err = fmt.Errorf("%w, needed by %s", what.err, needed)
	}
	v.report.fault(what)
}
