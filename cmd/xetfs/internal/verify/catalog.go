package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
)

// Catalog checks a store that is a catalog: references, versions and index pages must be
// sound, and the shards that they need must exist. Store checks the content of shards and
// xorbs. Catalog returns the number of symbols.
func Catalog(ctx context.Context, store origin.Store, report Report) (symbols int64, err error) {
	is, err := catalog.Exists(ctx, store)
	if errors.Is(err, codec.ErrCorrupt) {
		report.Fault(Fault{Path: string(names.SettingsKey()), Err: err})
		return 0, nil
	}
	if err != nil || !is {
		return 0, err
	}
	found := func(f sweep.Finding) { reportFinding(f, report) }
	result, err := sweep.Check(ctx, store, origin.Pages(store), sweep.CheckOptions{Found: found})
	return result.Symbols, err
}

// reportFinding reports a finding of a check of the catalog as a fault, unless it concerns
// the content of shards and xorbs.
func reportFinding(f sweep.Finding, report Report) {
	if f.Hidden {
		return
	}
	k, err := names.ParseKey(f.Key)
	isShard := err == nil && k.Kind == names.ShardKind
	var entry *sweep.EntryError
	isEntry := errors.As(f.Err, &entry)
	if err == nil && k.Kind == names.XorbKind || isShard && !f.Missing && !isEntry {
		return
	}
	what := Fault{Path: string(f.Key), Err: f.Err}
	switch {
	case isEntry:
		what.Kind, what.Hash = "file", entry.File
	case isShard:
		what.Kind, what.Hash = "shard", codec.Hash(k.Hash)
	}
	if errors.Is(f.Err, origin.ErrNotFound) {
		what.Err = errors.New("missing")
	}
	switch {
	case isEntry:
		what.Err = fmt.Errorf("entry %s@%d %s: %w", f.Symbol, f.Version, f.Path, what.Err)
	case f.Symbol != "" && !errors.As(f.Err, new(*sweep.LostRefError)):
		needed := fmt.Sprintf("%s@%d", f.Symbol, f.Version)
		if f.Path != "" {
			needed += " " + f.Path
		}
		what.Err = fmt.Errorf("%w, needed by %s", what.Err, needed)
	}
	report.Fault(what)
}
