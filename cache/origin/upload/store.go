package upload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/cache/origin/mirror"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A SessionID names one client: all requests with tokens that were made for one secret and one
// repository. It is opaque, and is never logged.
type SessionID string

// A Content is a stored file that a commit may name.
type Content struct {
	ID     codec.FileID // with the stored shard; zero: the empty file
	SHA256 [32]byte     // computed from the content
	Size   int64        // bytes
	Chunks int
}

// A Guard protects objects from a sweep while it holds.
type Guard interface {
	// Protect protects objects, and returns those that do not exist. An object that exists after
	// the call continues to exist while the guard holds. origin.ErrUnavailable: a sweep deletes one
	// of the objects at the moment.
	Protect(ctx context.Context, keys ...names.Key) (missing []names.Key, err error)
}

// A Source reads stored xorbs with proofs, as package objects does.
type Source interface {
	origin.InfoReader
	Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error)
	Reject(x codec.Hash) int
}

// Options describe a Store. Zero values of limits mean their defaults.
type Options struct {
	Source   Source // required; of the same store
	Leases   Guard  // holds for some time after each call; required
	TempFile func() (dedup.TempFile, error)
	Mirror   mirror.Mirror // of the index; nil: all shards are read from the store

	// Item returns size and time of change of an object, so that a change by another program is
	// noticed. nil: no other program can change an object in place.
	Item func(ctx context.Context, k names.Key) (origin.Item, error)

	Logger *slog.Logger // nil: nothing is logged

	// Key is the chunk hash key of the answers of Dedup. Each store has its own. Without the key of
	// a chunk, an answer does not reveal chunk hashes of data that the client lacks.
	Key [32]byte

	// AnswerLife is the time for which a client may use an answer of Dedup; 0: 4 hours. It should
	// not exceed that of Leases.
	AnswerLife time.Duration

	// Readable returns the file with a SHA-256 that a session may read, or origin.ErrNotFound. nil:
	// a session finds only what it uploaded.
	Readable func(ctx context.Context, sess SessionID, sum [32]byte) (Content, error)

	Quota   int64         // bytes of xorbs and shards in the store; 0: unlimited
	Scratch int64         // bytes of scratch files; 0: 4 GiB
	Uploads int           // bodies that are received at a time; 0: 64
	Wait    time.Duration // of a body for a slot and scratch space, before ErrBusy; 0: 10 seconds
	Content int64         // unpacked bytes that one shard may describe; 0: 1 TiB
}

// Bounds of a Store.
const (
	defaultAnswerLife = 4 * time.Hour
	defaultWait       = 10 * time.Second
	defaultScratch    = 4 << 30
	defaultUploads    = 64
	defaultContent    = 1 << 40

	maxShardBody = 80 << 20 // a client cuts shards at 64 MiB, tables and footer come on top
	maxXorbs     = 1 << 16  // that one shard refers to
	maxChunks    = 1 << 25  // in the files of one shard, with repetitions
	xorbsAtOnce  = 2        // xorbs in memory
	shardsAtOnce = 2        // shards that are checked
	packsAtOnce  = 2        // calls of PutContents; one of PutContent

	maxFiles    = 500_000  // files of sessions that are remembered, of about 250 bytes
	maxShards   = 20_000   // lists of xorbs of stored shards
	maxInfos    = 32 << 20 // bytes of xorb infos
	maxSums     = 200_000  // computed SHA-256, of about 150 bytes
	perChunk    = 32 + 2*4 // bytes of a xorb info
	maxXorbBody = codec.MaxXorbSize + xorb.ChunkHeaderSize*codec.MaxXorbChunks
)

// A Store checks bodies and stores objects. It is safe for concurrent use.
type Store struct {
	store  origin.WriteStore
	o      Options
	ctx    context.Context // of background work and of the index
	cancel context.CancelFunc
	work   sync.WaitGroup

	counted countStore // store, for puts
	index   chunkIndex
	answers flight.Group[codec.Hash, []byte] // of Dedup
	space   space
	uploads slots
	xorbs   slots
	shards  slots
	packs   slots
	large   slots
	recalls slots
	buffers sync.Pool // of *[]byte, each for any xorb

	mu     sync.Mutex
	files  *lru.Cache[fileKey, Content]        // guarded by mu, as all below
	parts  *lru.Cache[codec.Hash, []names.Key] // xorbs of stored shards
	infos  *lru.Cache[codec.Hash, *knownXorb]
	hashes *lru.Cache[codec.Hash, [32]byte] // SHA-256 by file hash

	receipts *lru.Cache[receiptKey, struct{}] // whose files are in files
}

// A fileKey names a file of a session.
type fileKey struct {
	sess SessionID
	sum  [32]byte
}

// Open returns the upload Store of s. It reads the index of stored chunks.
func Open(ctx context.Context, s origin.WriteStore, o Options) (*Store, error) {
	o.fill()
	u := &Store{
		store: s, o: o, index: chunkIndex{turn: newSlots(1)},
		uploads: newSlots(o.Uploads), xorbs: newSlots(xorbsAtOnce), shards: newSlots(shardsAtOnce), packs: newSlots(packsAtOnce), large: newSlots(1), recalls: newSlots(1),
		parts:  lru.New[codec.Hash, []names.Key](maxShards*100, nil),
		infos:  lru.New[codec.Hash, *knownXorb](maxInfos, nil),
		hashes: newHashes(),

		receipts: lru.New[receiptKey, struct{}](maxShards, nil),
	}
	u.files = lru.New(maxFiles, u.dropReceipt)
	u.ctx, u.cancel = context.WithCancel(context.WithoutCancel(ctx))
	u.space = space{store: s, quota: o.Quota, scratch: o.Scratch, released: make(chan struct{})}
	u.counted = countStore{s, &u.space}
	if err := u.space.measure(ctx); err != nil {
		return nil, errors.Join(err, u.Close())
	}
	if err := u.index.open(u); err != nil {
		return nil, errors.Join(err, u.Close())
	}
	return u, nil
}

func newHashes() *lru.Cache[codec.Hash, [32]byte] { return lru.New[codec.Hash, [32]byte](maxSums, nil) }

func (o *Options) fill() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for _, n := range []struct {
		p   *int64
		def int64
	}{{&o.Scratch, defaultScratch}, {&o.Content, defaultContent}} {
		if *n.p == 0 {
			*n.p = n.def
		}
	}
	if o.Uploads == 0 {
		o.Uploads = defaultUploads
	}
	if o.Wait == 0 {
		o.Wait = defaultWait
	}
	if o.AnswerLife == 0 {
		o.AnswerLife = defaultAnswerLife
	}
}

// Close ends background work and removes scratch files.
func (s *Store) Close() error {
	s.cancel()
	s.work.Wait()
	return s.index.close()
}

// FileBySHA256 returns a file that the session uploaded or may read, or origin.ErrNotFound.
func (s *Store) FileBySHA256(ctx context.Context, sess SessionID, sum [32]byte) (Content, error) {
	s.mu.Lock()
	c, ok := s.files.Get(fileKey{sess, sum})
	s.mu.Unlock()
	switch {
	case ok:
		return c, nil
	case s.o.Readable != nil:
		return s.o.Readable(ctx, sess, sum)
	}
	return Content{}, fmt.Errorf("file of this session: %w", origin.ErrNotFound)
}

// remember records files that a session has just uploaded. They replace earlier copies in other shards,
// which a sweep may have deleted.
func (s *Store) remember(sess SessionID, files []Content) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range files {
		s.files.Remove(fileKey{sess, c.SHA256})
		s.files.Add(fileKey{sess, c.SHA256}, c, 1)
	}
}

// rememberOlder records files that a session uploaded earlier. Newer copies stay.
func (s *Store) rememberOlder(sess SessionID, files []Content) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range files {
		s.files.Add(fileKey{sess, c.SHA256}, c, 1)
	}
}

// dropReceipt lets Recall read the shard of an evicted file again. The caller holds mu.
func (s *Store) dropReceipt(k fileKey, c Content) {
	s.receipts.Remove(receiptKey{k.sess, c.ID.Shard})
}

// Commit checks that all data of files exists, and protects it by the guard of a publish
// (writer.Session) until that has ended. It is called between Begin and Update. *LeaseError names
// files to upload again.
//
// It names all objects of each shard, because the version keeps all of them. A sweep that lists a
// xorb need not list a younger shard that refers to it.
func (s *Store) Commit(ctx context.Context, files []Content, by Guard) error {
	var keys []names.Key
	needs := map[codec.Hash][]names.Key{} // by shard
	for _, f := range files {
		h := f.ID.Shard
		if _, seen := needs[h]; seen || h.IsZero() {
			continue
		}
		xorbs, err := s.partsOf(ctx, h)
		if err != nil && !errors.Is(err, origin.ErrNotFound) {
			return err
		}
		needs[h] = append(xorbs[:len(xorbs):len(xorbs)], names.ShardKey(h))
		keys = append(keys, needs[h]...)
	}
	missing, err := by.Protect(ctx, unique(keys)...)
	if err != nil || len(missing) == 0 {
		return err
	}
	gone := map[names.Key]bool{}
	for _, k := range missing {
		gone[k] = true
	}
	lost := &LeaseError{}
	for _, f := range files {
		for _, k := range needs[f.ID.Shard] {
			if gone[k] {
				lost.Files = append(lost.Files, f)
				break
			}
		}
	}
	return lost
}

// unique returns keys without repetitions, in order of first use.
func unique(keys []names.Key) []names.Key {
	seen := make(map[names.Key]struct{}, len(keys))
	all := keys[:0:0]
	for _, k := range keys {
		if _, ok := seen[k]; !ok {
			seen[k] = struct{}{}
			all = append(all, k)
		}
	}
	return all
}

// protect is Protect of the leases. It waits while a sweep deletes one of the objects.
func (s *Store) protect(ctx context.Context, keys ...names.Key) (missing []names.Key, err error) {
	for try := 0; ; try++ {
		missing, err = s.o.Leases.Protect(ctx, keys...)
		if !errors.Is(err, origin.ErrUnavailable) || try == maxSweepWaits {
			return missing, err
		}
		if err := origin.Sleep(ctx, sweepPause); err != nil {
			return nil, err
		}
	}
}

// A sweep deletes for seconds to minutes.
const (
	maxSweepWaits = 120
	sweepPause    = 2 * time.Second
)

// keep protects objects that put has just stored. An object that a sweep has deleted meanwhile is
// stored again.
func (s *Store) keep(ctx context.Context, k names.Key, put func() error) error {
	for range maxPuts {
		if err := put(); err != nil {
			return err
		}
		missing, err := s.protect(ctx, k)
		if err != nil || len(missing) == 0 {
			return err
		}
	}
	return fmt.Errorf("%s: deleted %d times after it was stored: %w", k, maxPuts, origin.ErrUnavailable)
}

const maxPuts = 5
