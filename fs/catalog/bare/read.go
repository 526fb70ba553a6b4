package bare

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

const (
	// shardsAtOnce is the number of concurrent reads. It hides the latency of a remote
	// store and respects its limits.
	shardsAtOnce = 16

	// wholeShard is the size up to which one read fetches a shard. Only the blocks of
	// files are read from a larger one.
	wholeShard = 256 << 10

	// lastSecond is the last second of the year 9999. A later creation time is invalid.
	lastSecond = 253402300799
)

// A shardFiles is the file section of one shard.
type shardFiles struct {
	hash codec.Hash
	name string // text form of hash
	time time.Time
	rows []fileRow // without the field shard
	shas []hexName // of the rows
	err  error     // the reason to omit it
}

// listShards returns the shards of s, sorted by key. It skips other objects.
func listShards(ctx context.Context, s origin.Store) ([]origin.Item, error) {
	var items []origin.Item
	for item, err := range s.List(ctx, names.ShardPrefix, "") {
		if err != nil {
			return nil, fmt.Errorf("list shards: %w", err)
		}
		if p, err := names.ParseKey(item.Key); err == nil && p.Kind == names.ShardKind {
			items = append(items, item)
		}
	}
	return items, nil
}

// readShards reads all shards. The error of a shard is in its field err.
func readShards(ctx context.Context, s origin.Store, items []origin.Item) ([]*shardFiles, error) {
	shards := make([]*shardFiles, len(items))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(shardsAtOnce)
	for i, item := range items {
		g.Go(func() error {
			shards[i] = readShard(gctx, s, item)
			return gctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("read shards: %w", err)
	}
	return shards, firstUnavailable(shards)
}

// firstUnavailable returns the first error if no shard could be read and none of the
// errors is damage.
func firstUnavailable(shards []*shardFiles) error {
	var first error
	for _, sh := range shards {
		if sh.err == nil || errors.Is(sh.err, codec.ErrCorrupt) {
			return nil
		}
		if first == nil {
			first = sh.err
		}
	}
	return first
}

func readShard(ctx context.Context, s origin.Store, item origin.Item) *shardFiles {
	p, _ := names.ParseKey(item.Key) // checked by listShards
	sh := &shardFiles{hash: p.Hash, time: item.Modified}
	sh.name = sh.hash.String()
	if err := sh.read(ctx, s, item); err != nil {
		sh.rows, sh.shas, sh.err = nil, nil, fmt.Errorf("shard %s: %w", sh.name, err)
	}
	return sh
}

func (sh *shardFiles) read(ctx context.Context, s origin.Store, item origin.Item) error {
	v, err := openShard(ctx, s, item)
	if err != nil {
		return err
	}
	r, err := shard.NewReader(v, v.size)
	if err != nil {
		return err
	}
	if m := r.Meta(); m.Footer && m.Created > 0 && m.Created <= lastSecond {
		sh.time = time.Unix(int64(m.Created), 0)
	}
	for head, err := range r.Heads() {
		if err != nil {
			return err
		}
		if head.Size == 0 && !head.File.IsZero() {
			return codec.Corrupt("file info block", head.Block, "no terms, but file %s is not empty", head.File)
		}
		if head.Size < 0 {
			return codec.Corrupt("file info block", head.Block, "terms hold more than %d bytes", int64(math.MaxInt64))
		}
		sh.add(head)
	}
	return nil
}

// emptySHA256 is the only SHA-256 of an empty file.
var emptySHA256 = sha256.Sum256(nil)

// add adds a row for a file. The first of several adjacent blocks of one file counts: a
// sparse shard has millions of blocks of the empty file.
func (sh *shardFiles) add(f shard.FileHead) {
	r := fileRow{hash: hexName(f.File.Swapped()), block: f.Block, size: f.Size}
	if n := len(sh.rows); n > 0 && sh.rows[n-1].hash == r.hash {
		return
	}
	if f.SHA256 != [32]byte{} && (f.Size > 0 || f.SHA256 == emptySHA256) {
		sh.shas = append(sh.shas, hexName(f.SHA256))
		r.sha = uint32(len(sh.shas))
	}
	sh.rows = append(sh.rows, r)
}

// openShard returns the bytes of a shard. Those of a small one are fetched already.
func openShard(ctx context.Context, s origin.Store, item origin.Item) (shardReader, error) {
	if item.Size <= 0 || item.Size > wholeShard {
		return shardReader{origin.ReaderAt(ctx, s, item.Key), item.Size}, nil
	}
	b := make([]byte, item.Size)
	if err := s.ReadAt(ctx, item.Key, b, 0); err != nil {
		return shardReader{}, err
	}
	return shardReader{bytes.NewReader(b), item.Size}, nil
}
