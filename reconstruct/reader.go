package reconstruct

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/recent"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// Options tune a Reader. The zero value has good defaults.
type Options struct {
	Window   int64 // packed bytes that one stream reads ahead, all together twice as many; 0: 32 MiB
	Terms    int64 // bytes of terms in memory, of all files; 0: 32 MiB
	Ahead    int64 // packed bytes that VerifyReaders of remote files fetch at a time, together, beside 8 pieces each, or 2 of a proof; 0: 32 MiB
	Parallel int   // pieces of one read that are fetched at a time; 0: 8, and GOMAXPROCS if the origin is local

	Materialize Policy // files to store as plain files, if the cache has a disk

	// Strict makes a Reader return no byte that is not proven. Files of a source without proofs
	// are read whole before their first byte is returned. Without it, only files up to 4 MiB are.
	Strict bool

	// OnContradiction is called when a file of a source without proofs contradicts the entry that
	// names it. SHA-256 or size differ, or the file stays wrong after a second fetch. The function
	// must not block. It may be nil.
	OnContradiction func(codec.FileID)
}

// A Reader rebuilds files. It uses hashes, never names. It is safe for concurrent use.
type Reader struct {
	c            *cache.Cache
	ctx          context.Context // of background work; ended by Close
	stop         context.CancelFunc
	window       int64
	parallel     int
	open         files
	materializer materializer
	backing      backingFiles
	sums         *lru.Clock[codec.Hash, [32]byte] // SHA-256 of files that were read whole and proven
	terms        groups
	loading      flight.Group[groupKey, *group]
	loads        chan struct{} // slots for groups being read
	ahead        *semaphore.Weighted

	// For a source without proofs, see prove.go:
	strict      bool
	proving     flight.Group[codec.FileID, *File]  // gated files
	checking    flight.Group[*File, struct{}]      // files that were read completely
	summing     flight.Group[codec.Hash, struct{}] // files that are read for their SHA-256
	suspects    *lru.Clock[codec.FileID, struct{}] // found corrupt last, and not read correctly since
	provenPlans *lru.Clock[codec.FileID, uint64]   // sums of terms that were dropped after a failed read

	smallProofs, largeProofs *semaphore.Weighted
	small                    smallFiles
	onCorrupt                atomic.Pointer[func(codec.FileID)]
	onContradiction          func(codec.FileID) // may be nil
}

// New returns a Reader over c. Close ends it, before c is closed.
func New(c *cache.Cache, o Options) *Reader {
	if o.Window == 0 {
		o.Window = 32 << 20
	}
	if o.Parallel == 0 {
		o.Parallel = 8
		if c.Local() {
			o.Parallel = runtime.GOMAXPROCS(0)
		}
	}
	if o.Terms == 0 {
		o.Terms = 32 << 20
	}
	if o.Ahead == 0 {
		o.Ahead = 32 << 20
	}
	r := &Reader{c: c, window: o.Window, parallel: o.Parallel, loads: make(chan struct{}, maxLoads), ahead: semaphore.NewWeighted(o.Ahead)}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.terms.max, r.strict, r.onContradiction = o.Terms, o.Strict, o.OnContradiction
	r.suspects = lru.NewClock[codec.FileID, struct{}](maxSuspects)
	r.provenPlans = lru.NewClock[codec.FileID, uint64](maxSuspects)
	r.smallProofs = semaphore.NewWeighted(minSmallProofs + o.Ahead)
	r.largeProofs = semaphore.NewWeighted(max(1, min(maxLargeProofs, o.Ahead/proofAhead)))
	r.checking.Detached = func(*File) bool { return true } // a check may take longer than its readers wait
	r.small.init()
	r.open.init()
	r.sums = lru.NewClock[codec.Hash, [32]byte](maxSums)
	r.materializer.init(r, o.Materialize)
	r.backing.init(c)
	return r
}

// Close ends all background work, and waits for it. Reads still work, but no longer use whole
// files, and fail if they need the check of one.
func (r *Reader) Close() error {
	r.materializer.close()
	r.backing.open.Close()
	r.proving.Wait()
	r.checking.Wait()
	r.summing.Wait()
	r.loading.Wait()
	return nil
}

// maxLoads is how many groups of terms are read concurrently: each may be as large as
// origin.MaxTerms.
const maxLoads = 32

// Local reports whether the origin is as quick as a local file, so that nothing is gained by
// readahead.
func (r *Reader) Local() bool { return r.c.Local() }

// Proves reports whether the origin proves files before they are read. See origin.Source.
func (r *Reader) Proves() bool { return r.c.Proves() }

// Stats returns the figures of the cache.
func (r *Reader) Stats() cache.Stats { return r.c.Stats() }

// Open returns a file. Its terms are proven (origin.Source).
func (r *Reader) Open(ctx context.Context, id codec.FileID) (*File, error) {
	if f, ok := r.open.get(id); ok {
		return f, nil
	}
	fi, large, err := r.c.OpenFileInfo(ctx, id)
	if err != nil {
		return nil, err
	}
	if large != nil {
		return r.open.add(id, newLargeFile(r, id, large)), nil
	}
	if err := r.checkPlan(id, fi.Terms); err != nil {
		return nil, err
	}
	return r.addFile(id, fi), nil
}

// Reopen is Open that returns no file of an earlier plan.
func (r *Reader) Reopen(ctx context.Context, id codec.FileID) (*File, error) {
	if f, ok := r.open.get(id); ok {
		r.open.drop(f)
	}
	return r.Open(ctx, id)
}

// OpenSize is Open for a file of size bytes. An unproven plan of another size is dropped and
// requested once more. The result may still have another size.
func (r *Reader) OpenSize(ctx context.Context, id codec.FileID, size int64) (*File, error) {
	f, err := r.Open(origin.WithSize(ctx, size), id)
	if err != nil || f.Size() == size || r.Proves() {
		return f, err
	}
	r.open.drop(f)
	r.c.Forget(id)
	f, err = r.Open(ctx, id)
	if err == nil && f.Size() != size {
		r.contradicted(id)
	}
	return f, err
}

// WrongSize is the error of a file whose terms hold got bytes and whose entry says want. It is
// codec.ErrCorrupt.
func WrongSize(got, want int64) error {
	return codec.Corrupt("terms", 0, "hold %d bytes, the catalog says %d", got, want)
}

// addFile returns the open file of a File Info block.
func (r *Reader) addFile(id codec.FileID, fi *shard.FileInfo) *File {
	f := newFile(r, id, fi)
	r.terms.add(f.only.Load())
	return r.open.add(id, f)
}

// A File is one file, ready to be read at any offset by many readers.
type File struct {
	r     *Reader
	id    codec.FileID
	size  int64
	block int64 // offset of the File Info block

	sha256 [32]byte // by the File Info block; zero: it has none

	// The terms, as far as they are in memory.
	large *origin.LargeFile       // nil: it has one group
	only  atomic.Pointer[group]   // of a file of one group
	slots []atomic.Pointer[group] // of a large file

	fixed bool                  // only this File Info block counts
	retry atomic.Pointer[retry] // nil: no other block was requested

	// For a source without proofs, see prove.go:
	tracker      *tracker                 // nil: the source proves its files
	trackerSlots int64                    // that tracker takes once the file was read
	planSum      uint64                   // of the terms; of a large file: of none
	gated        bool                     // no read returns before the file is proven
	isOpen       atomic.Bool              // a gated file is proven, and in memory if it is small
	needsSum     bool                     // its SHA-256 is a part of the proof
	wantSum      atomic.Pointer[[32]byte] // see Handle.LearnSHA256
	successor    atomic.Pointer[File]
	inodes       sync.Map // numbers for which KeepsPages was called
	dropped      bool     // no later open returns it; guarded by files.mu
	hadHandle    atomic.Bool

	verifiedWhole atomic.Bool // a complete read has matched the file hash
	readBacking   atomic.Bool // a read has returned bytes of the plain file
	hashed        atomic.Int32

	covered atomic.Pointer[coverage] // blocks that were read; nil: none, or not recorded
	times   atomic.Int32             // complete reads
}

// newFile returns a File of one group of terms.
func newFile(r *Reader, id codec.FileID, fi *shard.FileInfo) *File {
	f := &File{r: r, id: id, size: fi.Size(), block: fi.Block, sha256: fi.SHA256}
	f.only.Store(f.newGroup(0, fi.Terms, fi.Verify))
	f.track(fi.Terms)
	return f
}

// track prepares a file of a source without proofs. terms are those of a file that is not large.
func (f *File) track(terms []codec.Term) {
	if f.size == 0 || f.r.c.Proves() {
		return
	}
	f.tracker, f.planSum = newTracker(f.groups()), sumOf(terms)
	f.gated = f.r.strict || f.size <= smallFile || f.r.isSuspect(f.id) || f.hasOtherPlan()
	f.trackerSlots = trackerBytes(f, terms) / slotBytes
	content, _, err := f.r.c.ContentHash(f.id)
	f.needsSum = f.gated && (content == nil || err != nil)
}

// ID returns the identity by which the file was opened.
func (f *File) ID() codec.FileID { return f.id }

// Size returns the size of the file in bytes.
func (f *File) Size() int64 { return f.size }

// ReadAt fills p from offset off. Like io.ReaderAt it returns io.EOF with a short count at the
// end of the file, and only there. After any other error the content of p is undefined.
func (f *File) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("offset %d is negative", off)
	}
	n := max(0, min(int64(len(p)), f.Size()-off))
	if err := f.read(ctx, p[:n], off); err != nil {
		return 0, err
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// read fills p with the bytes of the file from off on: from the whole file on disk, or else
// from chunks.
func (f *File) read(ctx context.Context, p []byte, off int64) error {
	f.r.materializer.readStarts()
	defer f.r.materializer.readEnds()
	if f.tracker != nil {
		if err := f.current().tracker.err(); err != nil {
			return err
		}
	}
	if f.r.backing.readAt(f.id.File, p, off) {
		if !f.readBacking.Load() { // concurrent readers share its cache line
			f.readBacking.Store(true)
		}
		if f.isProven() {
			return nil
		}
		return f.current().gotPages(ctx, off, int64(len(p))) // others may be of wrong chunks
	}
	fetch := f.fetch
	if f.tracker != nil {
		fetch = f.readUnproven
	}
	err := fetch(ctx, p, off)
	if err == nil {
		f.r.materializer.read(f, off, int64(len(p)))
	}
	return err
}

// Levels of Verified.
const (
	verifiedChunk = "chunk"
	verifiedFile  = "file"
	verifiedNone  = "none"
)

// Verified returns how reads of this file are verified. It is "chunk" if all chunk hashes are
// known, "file" after a complete read with the right file hash, else "none". The known hashes of a
// source without proofs must also make the file.
func (f *File) Verified(ctx context.Context) string {
	if f = f.current(); !f.isProven() && f.proveByProven(ctx) != nil {
		return verifiedNone
	}
	const unknown, yes, no = 0, 1, 2
	if f.hashed.Load() == unknown {
		answer, final := f.allHashed(ctx)
		switch {
		case answer:
			f.hashed.Store(yes)
		case final:
			f.hashed.Store(no)
		}
	}
	switch {
	case f.hashed.Load() == yes:
		return verifiedChunk
	case f.verifiedWhole.Load():
		return verifiedFile
	}
	return verifiedNone
}

// allHashed reports whether the chunk hashes of all terms are known, and whether the answer is
// final. An origin may answer later.
func (f *File) allHashed(ctx context.Context) (answer, final bool) {
	for terms, err := range f.TermGroups(ctx) {
		if err != nil {
			return false, false
		}
		for i := range terms {
			known, err := f.r.c.Hashed(ctx, terms[i].Xorb, terms[i].Chunks)
			if !known {
				return false, err == nil
			}
		}
	}
	return true, true
}

const (
	maxBacking  = 64               // open whole files
	idleBacking = 10 * time.Second // an unused file is closed after it, at the latest after twice that time
)

// backingFiles are the whole files that were read last. An open file cannot be evicted, so
// files do not stay open for long.
type backingFiles struct {
	c    *cache.Cache
	open *recent.Set[codec.Hash, *disk.File]
}

// An openBacking is an open whole file.
type openBacking = recent.Item[codec.Hash, *disk.File]

func (s *backingFiles) init(c *cache.Cache) {
	s.c = c
	s.open = recent.New[codec.Hash](maxBacking, idleBacking, func(f *disk.File) {
		_ = f.Close() // it was only read
	})
}

// readAt fills p from a whole file, and reports whether it could.
func (s *backingFiles) readAt(h codec.Hash, p []byte, off int64) bool {
	if !s.c.HasDisk() || len(p) == 0 {
		return false
	}
	f := s.take(h)
	if f == nil {
		return false
	}
	defer s.open.Put(f)
	n, _ := f.Value.ReadAt(p, off) // it forgets a file that cannot be read
	if n < len(p) {
		s.open.Forget(h)
	}
	return n == len(p)
}

// take returns a whole file, which must be put back after the read, or nil.
func (s *backingFiles) take(h codec.Hash) *openBacking {
	if known := s.open.Find(h); known != nil {
		return known
	}
	if !s.c.HasFile(h) || s.open.Closed() {
		return nil
	}
	f, ok := s.c.OpenFile(h)
	if !ok {
		return nil
	}
	return s.open.Add(h, f)
}
