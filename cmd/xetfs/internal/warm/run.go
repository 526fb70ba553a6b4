package warm

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/reconstruct"
)

// Options are the layers and the files of one run.
type Options struct {
	Cache    *cache.Cache
	Reader   *reconstruct.Reader
	Disk     *disk.Store
	Tree     catalog.Tree
	Bare     bool     // the tree is a folder without catalog: only shards have a SHA-256
	Paths    []string // files and folders of the tree
	Chunks   bool     // store packed chunks instead of whole files
	MaxBytes int64    // limit of the disk cache
	Bar      *ui.Progress
	Failed   func(path string, err error) // reports one damaged or missing file or folder
}

// A Result counts the files of a run.
type Result struct {
	Already int64 // files that were in the disk cache before
	Failed  int64 // files and folders that are damaged or missing
}

// A Run fetches files into the disk cache. It reads the tree twice: Plan adds up the sizes, Do
// fetches. Content with several names is fetched once, for 16 bytes of memory each.
type Run struct {
	Options
	room        *semaphore.Weighted // bytes of ranges in flight
	windowBytes int64               // limit of a window

	mu     sync.Mutex
	result Result // guarded by mu
}

// New returns a run.
func New(o Options) *Run {
	return &Run{
		Options:     o,
		room:        semaphore.NewWeighted(requestsRoom),
		windowBytes: min(maxWindow, max(minWindow, o.MaxBytes/windowShare)),
	}
}

// A Selection is the sum of all files of a run. Content with several names counts once.
type Selection struct {
	Files, Bytes int64
	Room         int64 // bytes that whole files take on disk
	Absent       int64 // of Room: files that the disk cache does not have
}

// A file is the content of one file.
type file struct {
	path    string // of the first file that has it
	id      codec.FileID
	size    int64
	sum     *[32]byte // SHA-256 that the content must have; nil: that of its shard, if it has one
	claimed bool      // the path claims sum, and the entry has none
}

// Small files are stored many at a time, because most of the time passes in waiting for the
// disk to sync. Large files are fetched in parallel pieces, which takes memory.
const (
	warmers      = 16
	largeWarmers = 4
	leastLarge   = 8 << 20 // bytes of a large file
)

// Do fetches all files and returns the counts. An error ends the run early; a damaged file is
// reported and is no error.
func (r *Run) Do(ctx context.Context) (Result, error) {
	err := r.warmAll(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result, err
}

// warmAll fetches several files at a time. Small files of a remote source go into batches.
func (r *Run) warmAll(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var going sync.WaitGroup
	begin := func(workers int) chan<- file {
		jobs := make(chan file)
		for range workers {
			going.Go(func() {
				for f := range jobs {
					if err := r.warm(ctx, f); err != nil {
						stop(err)
					}
				}
			})
		}
		return jobs
	}
	small, large, lots := begin(warmers), begin(largeWarmers), r.newBatch(ctx)
	err := r.each(ctx, func(f file) error {
		to := small
		switch {
		case f.size >= leastLarge:
			to = large
		case !r.Cache.Local():
			return lots.add(f)
		}
		select {
		case to <- f:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, r.fail)
	if err == nil {
		err = lots.end()
	}
	if err != nil {
		stop(err)
	}
	close(small)
	close(large)
	going.Wait()
	return cmp.Or(context.Cause(ctx), err)
}

// Plan adds up the files of the run. It leaves out folders that cannot be listed.
func (r *Run) Plan(ctx context.Context) (Selection, error) {
	var all Selection
	err := r.each(ctx, func(c file) error {
		const block = 4 << 10
		room := (c.size + block - 1) / block * block
		all.Files++
		all.Bytes += c.size
		all.Room += room
		if !r.Cache.HasFile(c.id.File) {
			all.Absent += room
		}
		return nil
	}, func(string, error) {})
	return all, err
}

// each calls do once for each content, and lost for each folder that cannot be listed.
func (r *Run) each(ctx context.Context, do func(file) error, lost func(path string, err error)) error {
	seen := map[page.ContentKey]struct{}{}
	for _, p := range r.Paths {
		err := r.walk(ctx, p, func(e page.Entry) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if e.Type == page.Symlink && e.Path == p {
				return fmt.Errorf("%s: is a link to %s; name the file itself", p, ui.QuoteName(e.Target))
			}
			if e.Type != page.File || e.Size == 0 || len(e.Inline) > 0 {
				return nil // those are in the index, or nowhere
			}
			sum := catalog.ExpectedSHA256(r.Tree, &e)
			c := file{path: e.Path, id: e.ID, size: e.Size, sum: sum, claimed: e.SHA256 == nil && sum != nil}
			e.SHA256 = sum
			content := e.ContentKey()
			if _, ok := seen[content]; ok {
				return nil
			}
			seen[content] = struct{}{}
			return do(c)
		}, lost)
		if err != nil {
			return err
		}
	}
	return nil
}

// walk calls do for a file, or for all entries below a folder. It calls lost for each folder that
// cannot be listed.
func (r *Run) walk(ctx context.Context, path string, do func(page.Entry) error, lost func(path string, err error)) error {
	e, err := r.Tree.Lookup(ctx, path)
	if err != nil {
		return err
	}
	if e.Type != page.Dir {
		return do(e)
	}
	for e, err := range catalog.Walk(ctx, r.Tree, path) {
		switch {
		case err == nil:
			err = do(e)
		case origin.ConcernsOneObject(err):
			lost(cmp.Or(e.Path, "."), err)
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// warm stores the content of one file. An error means that no other file can be stored either.
func (r *Run) warm(ctx context.Context, c file) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	there := !r.Chunks && r.Cache.HasFile(c.id.File) && !c.claimed
	var done int64
	read := func(n int64) {
		done += n
		r.Bar.Add(n)
	}
	var err error
	switch {
	case r.Chunks:
		if there, err = r.storeChunks(ctx, c, read); err == nil {
			err = r.compare(ctx, c)
		}
	case c.claimed && r.Cache.HasFile(c.id.File):
		err = r.compare(ctx, c)
	case !there:
		err = r.Reader.Materialize(ctx, c.id, c.sum, read)
	case !r.Reader.Proves():
		err = r.prove(ctx, c)
	}
	r.Bar.Add(c.size - done)
	return r.finish(ctx, c, there, err)
}

// compare compares the SHA-256 of a file without a name in a catalog, which only a shard
// claims. An index page proves the SHA-256 of other files.
//
// A file of a source without proofs is proven.
func (r *Run) compare(ctx context.Context, c file) error {
	if !r.Reader.Proves() {
		return r.prove(ctx, c)
	}
	if !r.Bare {
		return nil
	}
	info, err := r.Cache.FileInfo(ctx, c.id)
	if err != nil {
		return err
	}
	if c.sum != nil {
		claimed := *info
		claimed.SHA256 = *c.sum
		info = &claimed
	}
	if info.SHA256 == ([32]byte{}) {
		return nil
	}
	return r.Reader.Check(ctx, info, func(int64) {})
}

func (r *Run) prove(ctx context.Context, c file) error {
	f, err := r.Reader.OpenSize(ctx, c.id, c.size)
	if err != nil {
		return err
	}
	if c.sum == nil || c.id.File.IsPlain() {
		return f.Prove(ctx)
	}
	return f.VerifySHA256(ctx, *c.sum)
}

// finish counts and reports the end of one file. An error means that no other file can be
// stored either.
func (r *Run) finish(ctx context.Context, c file, there bool, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil && there:
		r.result.Already++
	case err == nil:
	case ui.IsCanceled(ctx, err):
		return ctx.Err()
	case origin.ConcernsOneObject(err):
		r.failLocked(c.path, err)
	default:
		return fmt.Errorf("%s: %w", c.path, err)
	}
	return nil
}

// fail counts and reports a file or folder that cannot be read.
func (r *Run) fail(path string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failLocked(path, err)
}

func (r *Run) failLocked(path string, err error) {
	r.result.Failed++
	r.Failed(path, err)
}
