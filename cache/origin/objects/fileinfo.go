package objects

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/metacache"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// errIncomplete means that the chunk hashes of some terms are not known. The File Info block is
// good as far as it could be checked.
var errIncomplete = errors.New("not all chunks are known")

// An unprovenError says which chunk hashes are missing. It is an errIncomplete.
type unprovenError struct {
	term  int
	cause error
}

func (e *unprovenError) Error() string {
	return fmt.Sprintf("term %d: its chunks are not known: %v", e.term, e.cause)
}

// Is reports whether target is errIncomplete.
func (e *unprovenError) Is(target error) bool { return target == errIncomplete }

// unproven returns the error of a File Info block that cannot be proven for now.
func unproven(block int64, err error) error {
	var e *unprovenError
	if !errors.As(err, &e) {
		return err
	}
	if errors.Is(e.cause, origin.ErrUnavailable) {
		return fmt.Errorf("term %d: %w", e.term, e.cause)
	}
	return codec.Corrupt("file info block", block, "nothing proves it: %v", e)
}

// isContextError reports whether err is the end of a context, which proves nothing about an object.
func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// FileInfo implements Source. Several shards may describe one file. The shard that id names is
// read first. If that shard is absent, or its description is damaged or incomplete, the others
// are read. The first good description is returned, or else an incomplete one.
func (o *objects) FileInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
	if id.File.IsZero() {
		return new(shard.FileInfo), nil
	}
	if fi, ok := o.tryFileInfo(ctx, id); ok {
		return fi, nil
	}
	return o.finding.Do(ctx, wantedFile{id, origin.IsNoCache(ctx)}, func(ctx context.Context) (*shard.FileInfo, error) {
		if fi, ok := o.cachedFileInfo(ctx, id); ok {
			return fi, nil
		}
		return o.findFile(ctx, id, nil)
	})
}

// cachedFileInfo returns the File Info block of a file from the metacache.
func (o *objects) cachedFileInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, bool) {
	k, ok := o.meta.File(ctx, id)
	if ok && !k.Keyed {
		o.remember(k.Shard, k.Terms)
	}
	return k.FileInfo, ok
}

// A wantedFile is the key of a search for a File Info block. Callers that bypass the caches
// share no result with other callers.
type wantedFile struct {
	id      codec.FileID
	noCache bool
}

// findFile searches the shards for a file. spec may hold the beginning of the block that id
// names, from a speculative read. nil: no such read.
func (o *objects) findFile(ctx context.Context, id codec.FileID, spec *origin.Part) (*shard.FileInfo, error) {
	var (
		incomplete *shard.FileInfo
		first      error
		absent     bool // the shard that id names is absent
	)
	for s, err := range o.describing(ctx, id, &absent) {
		var fi *shard.FileInfo
		if err == nil {
			fi, err = o.describe(ctx, s, id, spec)
		}
		switch {
		case err == nil:
			o.noteHint(id, s)
			return fi, nil
		case isContextError(err):
			return nil, err
		case errors.Is(err, errIncomplete) && incomplete == nil:
			incomplete = fi
		case first == nil && !errors.Is(err, shard.ErrNoFile) && !errors.Is(err, errIncomplete):
			first = err
		}
		absent = absent || s == id.Shard && errors.Is(err, origin.ErrNotFound)
	}
	switch {
	case incomplete != nil:
		return incomplete, nil // the present chunks can be read
	case first != nil:
		return nil, fmt.Errorf("file %s: %w", id.File, first)
	}
	return nil, fmt.Errorf("file %s: %w: no shard describes it", id.File, origin.ErrNotFound)
}

// describe returns the description of a file in shard s, if it is proven. With errIncomplete it
// returns the description of a file with missing chunks, which the shard proves.
func (o *objects) describe(ctx context.Context, s codec.Hash, id codec.FileID, spec *origin.Part) (*shard.FileInfo, error) {
	var good, incomplete *shard.FileInfo
	if s != id.Shard {
		spec = nil
	}
	err := o.fromShard(ctx, s, func(f *shardFile) error {
		fi, err := o.describeIn(ctx, f, id, spec)
		spec = nil // its bytes may be the corrupt ones
		switch {
		case err == nil:
			good = fi
			o.meta.PutFile(id, metacache.FileEntry{FileInfo: fi, Shard: s, Keyed: f.Meta().Keyed})
		case errors.Is(err, errIncomplete) && incomplete == nil:
			incomplete = fi
		}
		return err
	})
	if incomplete == nil || err == nil {
		return good, err
	}
	if o.proves(id) && s == id.Shard && o.inNamedShard(ctx, id, incomplete) {
		return incomplete, errIncomplete
	}
	return nil, fmt.Errorf("shard %s: %w", s, unproven(incomplete.Block, err))
}

// describeIn is describe for one copy of a shard. If a shard describes a file more than once,
// the first good block is returned.
func (o *objects) describeIn(ctx context.Context, f *shardFile, id codec.FileID, spec *origin.Part) (*shard.FileInfo, error) {
	fi, err := o.readFileInfo(ctx, f, id, spec)
	if err == nil {
		err = o.prove(ctx, f, id, fi)
	}
	if !errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, errIncomplete) {
		return fi, err
	}
	for head, headErr := range f.Heads() {
		if headErr != nil || head.File != id.File || (fi != nil && head.Block == fi.Block) {
			continue
		}
		other, otherErr := o.readBlock(ctx, f, head.Block, nil)
		if otherErr == nil && o.prove(ctx, f, id, other) == nil {
			return other, nil
		}
	}
	return fi, err
}

// describing yields the shards that may describe a file. The first is the shard that id names.
// The hint shard follows, then all others of the store. A remote store is not searched for a
// second description, only if the named shard is absent.
func (o *objects) describing(ctx context.Context, id codec.FileID, absent *bool) func(yield func(codec.Hash, error) bool) {
	return func(yield func(codec.Hash, error) bool) {
		named := !id.Shard.IsZero()
		if named && !yield(id.Shard, nil) {
			return
		}
		if named && !o.local && !*absent {
			return
		}
		hint := o.hintShard()
		if !hint.IsZero() && hint != id.Shard && !yield(hint, nil) {
			return
		}
		for item, err := range o.store.List(ctx, names.ShardPrefix, "") {
			if err != nil {
				if !errors.Is(err, errors.ErrUnsupported) {
					yield(codec.Hash{}, err)
				}
				return
			}
			p, err := names.ParseKey(item.Key)
			if err != nil || p.Kind != names.ShardKind || codec.Hash(p.Hash) == id.Shard || codec.Hash(p.Hash) == hint {
				continue
			}
			if !yield(p.Hash, nil) {
				return
			}
		}
	}
}

// hintShard returns the shard of the last file that was absent from the shard of its id. Files
// that lost their shard together are often together in another shard.
func (o *objects) hintShard() codec.Hash {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.hint
}

// noteHint records s as the hint shard, unless id names s.
func (o *objects) noteHint(id codec.FileID, s codec.Hash) {
	if s == id.Shard {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hint = s
}

// blockPart is the number of bytes of a remote shard that are read from the start of a File
// Info block. They hold about 340 terms.
const blockPart = 16 << 10

// readFileInfo reads the File Info block of a file in one shard. It remembers that this shard
// may list the chunks of the file's xorbs.
func (o *objects) readFileInfo(ctx context.Context, f *shardFile, id codec.FileID, spec *origin.Part) (*shard.FileInfo, error) {
	var (
		fi  *shard.FileInfo
		err error
	)
	if f.hash == id.Shard && id.Block != 0 {
		fi, err = o.readBlock(ctx, f, id.Block, spec)
	} else {
		fi, err = f.FileInfo(id.File)
	}
	if err != nil {
		return nil, err
	}
	if fi.File != id.File {
		return nil, codec.Corrupt("file info block", fi.Block, "describes file %s", fi.File)
	}
	if !f.Meta().Keyed {
		o.remember(f.hash, fi.Terms)
	}
	return fi, nil
}

// readBlock reads the File Info block at an offset of the shard. spec may hold its beginning.
// The decoder also reads bytes behind the block.
func (o *objects) readBlock(ctx context.Context, f *shardFile, block int64, spec *origin.Part) (*shard.FileInfo, error) {
	if !o.local && !spec.Holds(block, 1) {
		part, err := f.block(ctx, block, blockPart)
		if err != nil {
			return nil, err
		}
		spec = &part
	}
	r := newPieceReader(f.at(ctx), spec)
	return shard.ReadFileInfo(io.NewSectionReader(r, 0, f.size), block)
}
