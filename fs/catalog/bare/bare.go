package bare

import (
	"context"
	"errors"
	"io"
	iofs "io/fs"
	"iter"
	"log/slog"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// Options tune Open.
type Options struct {
	Logger *slog.Logger // nil: damage is not logged
}

// A Catalog shows the files of a store that has no catalog, named by their
// hashes. It has one symbol, the empty one, and one version of it:
//
//	by-hash/<xet hash>            every file of every shard
//	by-sha256/<sha256>            the same, where a shard claims a SHA-256 (ClaimedSHA256)
//	shards/<shard>/<xet hash>     the files of one shard; <shard> is the hash in its key
//
// A file that several shards describe is, in the first two, that of the shard with the
// lowest key. Its time is when its shard was created, or else stored.
type Catalog struct {
	tree    *hashTree
	damaged []error
}

var _ catalog.Catalog = (*Catalog)(nil)

// Open lists the shards of s and reads their file sections only. It logs a damaged shard
// once and omits it (Damaged). If no shard can be read for a reason other than damage,
// Open returns that error.
func Open(ctx context.Context, s origin.Store, o Options) (*Catalog, error) {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	items, err := listShards(ctx, s)
	if err != nil {
		return nil, err
	}
	shards, err := readShards(ctx, s, items)
	if err != nil {
		return nil, err
	}
	c := &Catalog{}
	good := shards[:0]
	for _, sh := range shards {
		if sh.err != nil {
			logDamage(log, sh)
			c.damaged = append(c.damaged, sh.err)
			continue
		}
		good = append(good, sh)
	}
	c.tree = newHashTree(good)
	return c, nil
}

// Damaged returns the errors of the omitted shards, by key. Each names the shard and, if
// it is an ErrCorrupt, the offset.
func (c *Catalog) Damaged() []error { return c.damaged }

// Symbols implements Catalog: it yields the empty symbol.
func (c *Catalog) Symbols(context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) { yield("", nil) }
}

// Open implements catalog.Catalog. There is one version, the newest.
func (c *Catalog) Open(_ context.Context, symbol string, at names.AsOf) (catalog.Tree, error) {
	if symbol != "" || at.Form != names.Latest {
		return nil, &iofs.PathError{Op: "open", Path: symbol, Err: iofs.ErrNotExist}
	}
	return c.tree, nil
}

func logDamage(log *slog.Logger, sh *shardFiles) {
	event := "corrupt"
	if errors.Is(sh.err, origin.ErrNotFound) || errors.Is(sh.err, origin.ErrUnavailable) {
		event = "origin_gave_up"
	}
	log.Warn("a shard is left out", "event", event, "what", "shard", "shard", sh.name, "err", sh.err)
}

// A shardReader of the bytes of one shard, for its decoder.
type shardReader struct {
	io.ReaderAt
	size int64
}
