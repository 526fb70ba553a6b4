package main

import (
	"cmp"
	"context"
	"log/slog"
	"runtime"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/reconstruct"
)

// A verifier checks one folder, in three steps: it looks through the shards to learn
// how much there is to do, checks all xorbs, and checks all shards with their files.
// Memory is bounded by 8 MiB of a shard for each core, the largest File Info, 100 bytes per xorb and 32 per
// file. What is far comes once, which needs more memory (verify_held.go).
type verifier struct {
	place  *place
	cache  *cache.Cache
	reader *reconstruct.Reader
	report *findings
	bar    *ui.Progress

	mu      sync.Mutex
	keyed   map[codec.Hash]bool       // xorbs that a keyed shard lists; guarded by mu
	xorbs   map[codec.Hash]*xorbFacts // guarded by mu
	doubted map[codec.Hash][]string   // paths of xorbs that nothing vouches for so far; guarded by mu
	seen    map[blockSum]struct{}     // File Info blocks that were checked; guarded by mu
}

// openVerifier finds the shards and xorbs in a folder, or on a web server. waiting is that
// of origin.Limits.
func openVerifier(ctx context.Context, folder string, waiting func()) (*verifier, error) {
	v := &verifier{
		keyed:   map[codec.Hash]bool{},
		xorbs:   map[codec.Hash]*xorbFacts{},
		doubted: map[codec.Hash][]string{},
		seen:    map[blockSum]struct{}{},
	}
	var err error
	if v.place, err = openPlace(ctx, folder, waiting); err != nil {
		return nil, err
	}
	b := divide(defaultMemory)
	log := slog.New(slog.DiscardHandler) // what is found here is in the report
	if v.cache, err = cache.New(origin.Objects(v.place.store, b.infos), b.cacheOptions(false, log)); err != nil {
		v.close()
		return nil, err
	}
	v.reader = reconstruct.New(v.cache, reconstruct.Options{Terms: b.terms})
	return v, nil
}

func (v *verifier) close() {
	if v.cache != nil {
		v.cache.Close()
	}
	v.place.close()
}

// run does everything. What is wrong goes into the report.
func (v *verifier) run(ctx context.Context) {
	var shards, xorbs []dir.File
	for _, f := range v.place.files {
		switch {
		case f.Err != nil:
			v.report.fault(fault{path: f.Path, err: f.Err})
		case f.Kind == names.ShardKind:
			shards = append(shards, f)
		case f.Kind == names.XorbKind:
			xorbs = append(xorbs, f)
		}
	}
	v.plan(ctx, shards, xorbs)
	if v.place.held != nil {
		v.runHeld(ctx, shards, xorbs)
	} else {
		v.inParallel(ctx, xorbs, v.checkXorb)
		files := v.startFiles(ctx)
		v.inParallel(ctx, shards, func(ctx context.Context, f dir.File) {
			v.checkShard(ctx, f, files.check, func(*shard.Reader) {})
		})
		files.wait()
	}
	for _, paths := range v.doubted {
		v.report.doubted = append(v.report.doubted, paths...)
	}
}

// plan tells the progress bar how much there is to read: every object, and every file.
func (v *verifier) plan(ctx context.Context, shards, xorbs []dir.File) {
	for _, f := range xorbs {
		v.bar.Expect(f.Size)
	}
	workers := runtime.GOMAXPROCS(0)
	if v.place.held != nil {
		workers = farShards
	}
	largestFirst(ctx, workers, shards, func(ctx context.Context, f dir.File) {
		v.bar.Expect(f.Size)
		v.lookThrough(ctx, f)
	})
	v.bar.Start()
}

// inParallel calls do for every file, on all cores, the largest first.
func (v *verifier) inParallel(ctx context.Context, files []dir.File, do func(context.Context, dir.File)) {
	largestFirst(ctx, runtime.GOMAXPROCS(0), files, do)
}

// largestFirst is byMany for files.
func largestFirst(ctx context.Context, count int, files []dir.File, do func(context.Context, dir.File)) {
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b dir.File) int { return cmp.Compare(b.Size, a.Size) })
	ui.ForEach(ctx, count, files, do)
}

// An object is the file of a shard or xorb, being read. Reading ends when ctx does, and
// moves the progress bar.
type object struct {
	ctx  context.Context // of the call that reads; an io.ReaderAt has nowhere else for it
	f    readerAtCloser
	bar  *ui.Progress // nil: nobody looks
	high int64        // end of what was read so far
}

// open opens the file of an object and returns a reader for it.
func (v *verifier) open(ctx context.Context, f dir.File) (*object, error) {
	file, err := v.place.open(ctx, f)
	if err != nil {
		return nil, err
	}
	return &object{ctx: ctx, f: file, bar: v.bar}, nil
}

// ReadAt implements io.ReaderAt, for one caller at a time.
func (o *object) ReadAt(p []byte, off int64) (int, error) {
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := o.f.ReadAt(p, off)
	if end := off + int64(n); end > o.high {
		o.bar.Add(end - o.high)
		o.high = end
	}
	return n, err
}

func (o *object) close() { o.f.Close() }
