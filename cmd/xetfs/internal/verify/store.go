package verify

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// A verifier checks one store in steps. It scans the shards for sizes and keyed xorbs. It then
// checks the shards with their files, the rest of the xorbs, and the lists of the shards. The
// chunks of a file are unpacked once, for the file and for the xorb. Memory is bounded by 8 MiB
// of shards per core. Each file that is checked at a time needs 8 MiB and its File Info. The rest
// is 200 bytes per shard, 100 per xorb, 32 per file and a bit per chunk. A remote store needs a
// XorbCache more.
type verifier struct {
	Target
	report Report

	mu           sync.Mutex
	keyed        map[codec.Hash]bool       // xorbs that a keyed shard lists; guarded by mu
	xorbs        map[codec.Hash]*xorbFacts // guarded by mu
	unverifiable map[codec.Hash][]string   // paths of xorbs that nothing vouches for so far; guarded by mu
	seen         map[blockSum]struct{}     // File Info blocks that were checked; guarded by mu
	read         []*shardCheck             // shards of a local store whose lists are checked later; guarded by mu

	proven *provenChunks // of a local store
}

// Store checks every object of a target and every file that its shards describe. Faults go
// to the report.
func Store(ctx context.Context, t Target, r Report) {
	v := &verifier{
		Target:       t,
		report:       r,
		keyed:        map[codec.Hash]bool{},
		xorbs:        map[codec.Hash]*xorbFacts{},
		unverifiable: map[codec.Hash][]string{},
		seen:         map[blockSum]struct{}{},
		proven:       newProvenChunks(nil),
	}
	v.run(ctx)
}

// run checks everything and reports all faults.
func (v *verifier) run(ctx context.Context) {
	var shards, xorbs []Object
	for _, f := range v.Objects {
		switch {
		case f.Err != nil:
			v.report.Fault(Fault{Path: f.Path, Err: f.Err})
		case f.Kind == names.ShardKind:
			shards = append(shards, f)
		case f.Kind == names.XorbKind:
			xorbs = append(xorbs, f)
		}
	}
	v.plan(ctx, shards, xorbs)
	if v.Remote != nil {
		v.runRemote(ctx, shards, xorbs)
	} else {
		v.runLocal(ctx, shards, xorbs)
	}
	for _, paths := range v.unverifiable {
		for _, path := range paths {
			v.report.Unverifiable(path)
		}
	}
}

// runLocal checks everything in a local store. A shard is read again for its lists, because
// these are compared with the xorbs.
func (v *verifier) runLocal(ctx context.Context, shards, xorbs []Object) {
	v.proven = newProvenChunks(xorbs)
	files := v.startFiles(ctx)
	v.inParallel(ctx, shards, func(ctx context.Context, f Object) {
		c := &shardCheck{v: v, f: f, whole: true}
		if c.read(ctx, func(s *shard.Reader) { c.files(ctx, s, files.check) }) {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.read = append(v.read, c)
		}
	})
	files.wait()
	v.inParallel(ctx, xorbs, v.checkXorb)
	ui.ForEach(ctx, runtime.GOMAXPROCS(0), v.read, func(ctx context.Context, c *shardCheck) { c.readLists(ctx) })
}

// plan adds the sizes of all objects and files to the progress bar and starts it.
func (v *verifier) plan(ctx context.Context, shards, xorbs []Object) {
	for _, f := range xorbs {
		v.Bar.Expect(f.Size)
	}
	workers := runtime.GOMAXPROCS(0)
	if v.Remote != nil {
		workers = remoteShards
	}
	largestFirst(ctx, workers, shards, func(ctx context.Context, f Object) {
		v.Bar.Expect(f.Size)
		v.lookThrough(ctx, f)
	})
	v.Bar.Start()
}

// inParallel calls do for every file, on all cores, the largest first.
func (v *verifier) inParallel(ctx context.Context, files []Object, do func(context.Context, Object)) {
	largestFirst(ctx, runtime.GOMAXPROCS(0), files, do)
}

// largestFirst calls do for each file with count goroutines, the largest file first.
func largestFirst(ctx context.Context, count int, files []Object, do func(context.Context, Object)) {
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b Object) int { return cmp.Compare(b.Size, a.Size) })
	ui.ForEach(ctx, count, files, do)
}

// An object reads the file of a shard or xorb. Reading ends with ctx and moves the progress
// bar.
type object struct {
	ctx  context.Context // of the call that reads; an io.ReaderAt has nowhere else for it
	f    ReaderAtCloser
	bar  *ui.Progress // nil: no progress is shown
	high int64        // end of what was read so far
}

// open opens the file of an object and returns a reader for it.
func (v *verifier) open(ctx context.Context, f Object) (*object, error) {
	file, err := v.Target.Open(ctx, f)
	if err != nil {
		return nil, err
	}
	return &object{ctx: ctx, f: file, bar: v.Bar}, nil
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
