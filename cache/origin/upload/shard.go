package upload

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/shard"
)

// A Progress receives the stage of PutShard, "validating" or "committing", and bytes of content.
type Progress func(stage string, done, total int64)

// beat is the interval of calls of a Progress.
const beat = 3 * time.Second

// PutShard checks a shard against the stored xorbs and stores it in our form. It returns the files
// of the shard in its order. It calls progress, if not nil, every few seconds, from one goroutine.
//
// The xorbs are leased before their presence is checked. Terms, lengths, range hashes and file
// hashes are compared with values of the stored xorbs. The SHA-256 is computed from the content.
// The xorbs are durable before a shard has its name.
func (s *Store) PutShard(ctx context.Context, sess SessionID, r io.Reader, length int64, progress Progress) ([]Content, error) {
	b, err := s.receive(ctx, r, length, maxShardBody)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	t := newTeller(progress)
	defer t.stop()
	if err := s.shards.wait(ctx); err != nil {
		return nil, err
	}
	defer s.shards.free()
	in, err := shard.NewReader(b, b.size)
	if err != nil {
		return nil, refuseCorrupt(err)
	}
	if in.Meta().Keyed {
		return nil, refuse("the chunk hashes of the shard are keyed")
	}
	c := &shardCheck{s: s, in: in, teller: t}
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	t.stage("committing")
	files, err := s.storeShard(ctx, c)
	if err != nil {
		return nil, full(err)
	}
	return files, s.record(ctx, sess, files)
}

// refuseCorrupt turns an ErrCorrupt of a received body into an ErrRefused.
func refuseCorrupt(err error) error {
	if errors.Is(err, codec.ErrCorrupt) {
		return refuse("%w", err)
	}
	return err
}

// A teller calls a Progress until stop.
type teller struct {
	ended chan struct{}
	work  sync.WaitGroup

	mu          sync.Mutex
	name        string // of the stage; guarded by mu, as all below
	done, total int64
}

func newTeller(p Progress) *teller {
	t := &teller{ended: make(chan struct{}), name: "validating"}
	if p == nil {
		return t
	}
	t.work.Go(func() {
		tick := time.NewTicker(beat)
		defer tick.Stop()
		for {
			t.mu.Lock()
			name, done, total := t.name, t.done, t.total
			t.mu.Unlock()
			p(name, done, total)
			select {
			case <-tick.C:
			case <-t.ended:
				return
			}
		}
	})
	return t
}

func (t *teller) stage(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.name = name
}

func (t *teller) add(done, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done, t.total = t.done+done, t.total+total
}

// stop ends the calls. It waits for the last one.
func (t *teller) stop() {
	close(t.ended)
	t.work.Wait()
}

// A shardCheck is one shard that is checked.
type shardCheck struct {
	s      *Store
	in     *shard.Reader
	teller *teller
	xorbs  []codec.Hash // that the shard refers to, in order of first use
	listed []codec.Hash // xorbs with a chunk list
	files  []Content    // in the order of the shard, without the stored shard
}

func (c *shardCheck) run(ctx context.Context) error {
	if err := c.collect(); err != nil {
		return err
	}
	if err := c.lease(ctx); err != nil {
		return err
	}
	if err := c.checkLists(ctx); err != nil {
		return err
	}
	if err := c.checkFiles(ctx); err != nil {
		return err
	}
	return c.checkSums(ctx)
}

// collect reads the whole shard for the xorbs that it refers to, and bounds the work.
func (c *shardCheck) collect() error {
	seen := map[codec.Hash]bool{}
	add := func(x codec.Hash) error {
		if seen[x] {
			return nil
		}
		if len(seen) == maxXorbs {
			return refuse("the shard refers to more than %d xorbs", maxXorbs)
		}
		seen[x] = true
		c.xorbs = append(c.xorbs, x)
		return nil
	}
	total := int64(0)
	for f, err := range c.in.Files() {
		if err != nil {
			return refuseCorrupt(err)
		}
		if f.File.IsZero() != (len(f.Terms) == 0) {
			return refuse("file %s: only the empty file has no terms, and the zero hash", f.File)
		}
		if len(f.Terms) > 0 && f.Verify == nil {
			return refuse("file %s: its terms have no verification hashes", f.File)
		}
		for _, t := range f.Terms {
			if err := add(t.Xorb); err != nil {
				return err
			}
			if total += int64(t.Size); total > c.s.o.Content {
				return refuse("the files of the shard have more than %d bytes; send several shards", c.s.o.Content)
			}
		}
	}
	c.teller.add(0, total)
	for x, err := range c.in.Xorbs() {
		if err != nil {
			return refuseCorrupt(err)
		}
		if err := add(x.Xorb); err != nil {
			return err
		}
		c.listed = append(c.listed, x.Xorb)
	}
	return nil
}

// xorbsPerCall bounds the requests for a shard whose xorbs are missing.
const xorbsPerCall = 256

// lease leases the xorbs, then checks that they exist.
func (c *shardCheck) lease(ctx context.Context) error {
	for start := 0; start < len(c.xorbs); start += xorbsPerCall {
		part := c.xorbs[start:min(start+xorbsPerCall, len(c.xorbs))]
		keys := make([]names.Key, len(part))
		for i, x := range part {
			keys[i] = names.XorbKey(x)
		}
		missing, err := c.s.protect(ctx, keys...)
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			return c.missing(missing)
		}
		c.s.checkChanged(ctx, part...)
	}
	return nil
}

// missing returns the error for xorbs that are not stored. It names a file that needs one.
func (c *shardCheck) missing(keys []names.Key) error {
	gone := map[names.Key]bool{}
	for _, k := range keys {
		gone[k] = true
	}
	for f, err := range c.in.Files() {
		if err != nil {
			return refuseCorrupt(err)
		}
		for _, t := range f.Terms {
			if gone[names.XorbKey(t.Xorb)] {
				return refuse("file %s: its xorb %s is not stored; %s", f.File, t.Xorb, uploadAgain)
			}
		}
	}
	return refuse("%s is not stored; upload it first", keys[0])
}

// checkLists compares the chunk lists with the stored xorbs.
func (c *shardCheck) checkLists(ctx context.Context) error {
	for x, err := range c.in.Xorbs() {
		if err != nil {
			return refuseCorrupt(err)
		}
		in, err := c.s.info(ctx, x.Xorb)
		if err != nil {
			return err
		}
		if err := CheckList(x, in); err != nil {
			return err
		}
	}
	return nil
}

// checkFiles compares the files with the stored xorbs.
func (c *shardCheck) checkFiles(ctx context.Context) error {
	chunks := 0
	for f, err := range c.in.Files() {
		if err != nil {
			return refuseCorrupt(err)
		}
		for _, t := range f.Terms {
			if chunks += t.Chunks.Len(); chunks > maxChunks {
				return refuse("the files of the shard have more than %d chunks; send several shards", maxChunks)
			}
		}
		n, err := CheckFile(f, func(x codec.Hash) (Lists, error) { return c.s.list(ctx, x) })
		if err != nil {
			return err
		}
		c.files = append(c.files, Content{ID: codec.FileID{File: f.File}, Size: f.Size(), Chunks: n})
	}
	return nil
}

// checkSums computes the SHA-256 of each file, and compares it with that of the client if it sent
// one.
func (c *shardCheck) checkSums(ctx context.Context) error {
	i := 0
	for f, err := range c.in.Files() {
		if err != nil {
			return refuseCorrupt(err)
		}
		sum, err := c.s.sum(ctx, f, func(n int64) { c.teller.add(n, 0) })
		if err != nil {
			return err
		}
		if f.SHA256 != ([32]byte{}) && f.SHA256 != sum {
			return refuse("file %s: its content has another SHA-256", f.File)
		}
		c.files[i].SHA256 = sum
		i++
	}
	return nil
}

// sum returns the SHA-256 of a file. It reads the content once per file hash.
func (s *Store) sum(ctx context.Context, f *shard.FileInfo, progress func(n int64)) ([32]byte, error) {
	if len(f.Terms) == 0 {
		return sha256.Sum256(nil), nil
	}
	s.mu.Lock()
	sum, ok := s.hashes.Get(f.File)
	s.mu.Unlock()
	if ok {
		progress(f.Size())
		return sum, nil
	}
	sum, err := s.hashContent(ctx, f, progress)
	if err != nil {
		return sum, fmt.Errorf("file %s: %w", f.File, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hashes.Add(f.File, sum, 1)
	return sum, nil
}

// shardBytes is the size at which a stored shard ends: publishers use the same.
const shardBytes = 4 << 20

// storeShard stores the files of a checked shard in shards of our form, and returns them.
func (s *Store) storeShard(ctx context.Context, c *shardCheck) ([]Content, error) {
	w := &shardWriter{s: s, ctx: ctx, pending: map[codec.Hash]bool{}, at: map[codec.Hash]codec.FileID{}}
	for _, x := range c.listed {
		w.pending[x] = true
	}
	i := 0
	for f, err := range c.in.Files() {
		if err != nil {
			return nil, refuseCorrupt(err)
		}
		if len(f.Terms) > 0 {
			f.SHA256, f.Metadata, f.Block = c.files[i].SHA256, true, 0
			if err := w.addFile(f); err != nil {
				return nil, err
			}
		}
		i++
	}
	for _, x := range c.listed { // without a file
		if err := w.addXorb(x); err != nil {
			return nil, err
		}
	}
	if err := w.flush(); err != nil {
		return nil, err
	}
	for i := range c.files {
		if id, ok := w.at[c.files[i].ID.File]; ok {
			c.files[i].ID = id
		}
	}
	return c.files, nil
}

// A shardWriter cuts files and chunk lists into shards. A list is in the shard of the first file
// that needs it.
type shardWriter struct {
	s       *Store
	ctx     context.Context
	w       shard.Writer
	added   bool
	xorbs   []names.Key         // of w
	pending map[codec.Hash]bool // xorbs whose lists are not stored yet
	at      map[codec.Hash]codec.FileID
	files   []codec.Hash // of w
}

func (w *shardWriter) addFile(f *shard.FileInfo) error {
	if _, ok := w.at[f.File]; ok {
		return nil // twice in the shard
	}
	for i, t := range f.Terms {
		if i > 0 && t.Xorb == f.Terms[i-1].Xorb {
			continue
		}
		if err := w.addXorb(t.Xorb); err != nil {
			return err
		}
		w.xorbs = append(w.xorbs, names.XorbKey(t.Xorb))
	}
	w.w.AddFile(f)
	w.added = true
	w.at[f.File] = codec.FileID{}
	w.files = append(w.files, f.File)
	if w.w.Size() >= shardBytes {
		return w.flush()
	}
	return nil
}

// addXorb adds the list of a xorb that the client listed, once.
func (w *shardWriter) addXorb(x codec.Hash) error {
	if !w.pending[x] {
		return nil
	}
	delete(w.pending, x)
	in, err := w.s.info(w.ctx, x)
	if err != nil {
		return err
	}
	w.w.AddXorb(pack.XorbInfo(x, in))
	w.added = true
	w.xorbs = append(w.xorbs, names.XorbKey(x))
	return nil
}

// flush stores the shard so far.
func (w *shardWriter) flush() error {
	if !w.added {
		return nil
	}
	b, err := w.w.Encode()
	if err != nil {
		return err
	}
	if err := w.s.space.check(w.ctx, int64(len(b))); err != nil {
		return err
	}
	h, err := w.s.putShard(w.ctx, &w.w, unique(w.xorbs))
	if err != nil {
		return err
	}
	blocks, err := shard.Blocks(b)
	if err != nil {
		return err
	}
	for _, f := range w.files {
		w.at[f] = codec.FileID{File: f, Shard: h, Block: blocks[f]}
	}
	w.w, w.added, w.xorbs, w.files = shard.Writer{}, false, nil, nil
	return nil
}

// putShard stores a shard behind its durable xorbs, leases it, and adds it to the index.
func (s *Store) putShard(ctx context.Context, w *shard.Writer, xorbs []names.Key) (h codec.Hash, err error) {
	for range maxPuts {
		if h, err = origin.Sink(s.counted).PutShard(ctx, w); err != nil {
			return h, err
		}
		missing, err := s.protect(ctx, append(xorbs[:len(xorbs):len(xorbs)], names.ShardKey(h))...)
		if err != nil {
			return h, err
		}
		if len(missing) == 0 {
			s.learn(ctx, h, xorbs)
			return h, nil
		}
		if missing[0] != names.ShardKey(h) {
			return h, refuse("%s was deleted during the upload; upload it again", missing[0])
		}
	}
	return h, fmt.Errorf("%s: deleted %d times after it was stored: %w", names.ShardKey(h), maxPuts, origin.ErrUnavailable)
}

// learn records a stored shard and the xorbs that it refers to.
func (s *Store) learn(ctx context.Context, h codec.Hash, xorbs []names.Key) {
	s.mu.Lock()
	s.parts.Add(h, xorbs, int64(1+len(xorbs)))
	s.mu.Unlock()
	s.index.learn(ctx, h)
}

// partsOf returns the xorbs that a stored shard refers to. The bytes of the shard are compared with
// its name: a damaged shard would protect other xorbs than the files need.
func (s *Store) partsOf(ctx context.Context, h codec.Hash) ([]names.Key, error) {
	s.mu.Lock()
	xorbs, ok := s.parts.Get(h)
	s.mu.Unlock()
	if ok {
		return xorbs, nil
	}
	in, err := origin.ReadShard(ctx, s.store, h)
	if err != nil {
		return nil, err
	}
	if xorbs, err = xorbsOf(in); err != nil {
		return nil, fmt.Errorf("%s: %w", names.ShardKey(h), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts.Add(h, xorbs, int64(1+len(xorbs)))
	return xorbs, nil
}

// xorbsOf returns the xorbs that a shard refers to.
func xorbsOf(in *shard.Reader) (xorbs []names.Key, err error) {
	for f, err := range in.Files() {
		if err != nil {
			return nil, err
		}
		for i, t := range f.Terms {
			if i == 0 || t.Xorb != f.Terms[i-1].Xorb {
				xorbs = append(xorbs, names.XorbKey(t.Xorb))
			}
		}
	}
	for x, err := range in.Xorbs() {
		if err != nil {
			return nil, err
		}
		xorbs = append(xorbs, names.XorbKey(x.Xorb))
	}
	return unique(xorbs), nil
}
