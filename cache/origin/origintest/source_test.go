package origintest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A broken is a Source that violates one sentence of the contract. A field replaces a method.
type broken struct {
	origin.Source
	renew func() origin.Source // a good Source over the same store

	fileInfo  func(ctx context.Context, id codec.FileID) (*shard.FileInfo, error)
	openFile  func(ctx context.Context, id codec.FileID) (*shard.FileInfo, *origin.LargeFile, error)
	fileInfos func(ctx context.Context, ids []codec.FileID, yield func(i int, fi *shard.FileInfo, err error))
	narrow    func(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (codec.ChunkRange, int64, error)
	chunks    func(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error)
	tryChunks func(x codec.Hash, r codec.ChunkRange, buffer func(n int) []byte) (*xorb.Run, bool)
	proves    func() bool
	prove     func(chunks []origin.ChunkHashes)
	content   func(id codec.FileID) (hash.Hash, []byte, error)
	hold      func(id codec.FileID) (release func())
	annotate  func(ctx context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, error)
	reject    func(x codec.Hash) int
	forget    func(id codec.FileID)
	local     func() bool
}

func newBroken(s origin.Store) *broken {
	renew := func() origin.Source { return objects.New(s, objects.Options{}) }
	src := renew()
	return &broken{
		Source: src, renew: renew,
		fileInfo: src.FileInfo, openFile: src.OpenFile, fileInfos: src.FileInfos, narrow: src.Narrow,
		proves: src.Proves, prove: src.Prove, content: src.ContentHash, hold: src.Hold,
		chunks: src.Chunks, tryChunks: src.TryChunks, annotate: src.Annotate,
		reject: src.Reject, forget: src.Forget, local: src.Local,
	}
}

func (b *broken) FileInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
	return b.fileInfo(ctx, id)
}

func (b *broken) OpenFile(ctx context.Context, id codec.FileID) (*shard.FileInfo, *origin.LargeFile, error) {
	return b.openFile(ctx, id)
}

func (b *broken) FileInfos(ctx context.Context, ids []codec.FileID, yield func(i int, fi *shard.FileInfo, err error)) {
	b.fileInfos(ctx, ids, yield)
}

func (b *broken) Narrow(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (codec.ChunkRange, int64, error) {
	return b.narrow(ctx, id, t, p)
}

func (b *broken) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	return b.chunks(ctx, x, r, o)
}

func (b *broken) TryChunks(x codec.Hash, r codec.ChunkRange, buffer func(n int) []byte) (*xorb.Run, bool) {
	return b.tryChunks(x, r, buffer)
}

func (b *broken) Annotate(ctx context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, error) {
	return b.annotate(ctx, x, run)
}

func (b *broken) Proves() bool { return b.proves() }

func (b *broken) Prove(chunks []origin.ChunkHashes) { b.prove(chunks) }

func (b *broken) ContentHash(id codec.FileID) (hash.Hash, []byte, error) { return b.content(id) }

func (b *broken) Hold(id codec.FileID) (release func()) { return b.hold(id) }

func (b *broken) Reject(x codec.Hash) int { return b.reject(x) }

func (b *broken) Forget(id codec.FileID) { b.forget(id) }

func (b *broken) Local() bool { return b.local() }

// violations has a change of a good Source for each clause, sometimes several.
var violations = []struct {
	clause string
	change func(b *broken)
}{
	{"Proves is whether runs have all hashes", func(b *broken) { b.proves = func() bool { return false } }},
	{"Prove gives hashes to later runs", func(b *broken) {
		b.prove = func(chunks []origin.ChunkHashes) {
			b.chunks = func(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
				run, err := b.Source.Chunks(ctx, x, r, o)
				if err == nil {
					run = cloneRun(run)
					run.Hashes = slices.Clone(run.Hashes)
					run.Hashes[0] = chunks[0].Leaves[0].Hash
				}
				return run, err
			}
		}
	}},
	{"ContentHash proves the content", func(b *broken) {
		b.content = func(codec.FileID) (hash.Hash, []byte, error) {
			return sha256.New(), make([]byte, sha256.Size), nil
		}
	}},
	{"Hold returns a release", func(b *broken) {
		b.hold = func(codec.FileID) (release func()) {
			return func() { b.fileInfo = anyFile }
		}
	}},
	{"FileInfo returns the block", func(b *broken) {
		b.fileInfo = func(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
			fi, err := b.Source.FileInfo(ctx, id)
			if err != nil || len(fi.Terms) == 0 {
				return fi, err
			}
			short := *fi
			short.Terms = fi.Terms[1:]
			return &short, nil
		}
	}},
	{"FileInfo proves the terms", func(b *broken) { b.fileInfo = anyFile }},
	{"FileInfo of an unknown file is ErrNotFound", func(b *broken) { b.fileInfo = anyFile }},
	{"OpenFile returns one result, all terms", func(b *broken) {
		b.openFile = func(ctx context.Context, id codec.FileID) (*shard.FileInfo, *origin.LargeFile, error) {
			fi, _, err := b.Source.OpenFile(ctx, id)
			return fi, &origin.LargeFile{Index: new(shard.FileIndex)}, err
		}
	}},
	{"OpenFile returns all terms of a large file", func(b *broken) {
		b.openFile = func(ctx context.Context, id codec.FileID) (*shard.FileInfo, *origin.LargeFile, error) {
			fi, large, err := b.Source.OpenFile(ctx, id)
			if large == nil {
				return fi, large, err
			}
			return nil, &origin.LargeFile{Index: large.Index, Group: func(ctx context.Context, _ int) ([]codec.Term, error) {
				return large.Group(ctx, 0)
			}}, err
		}
	}},
	{"FileInfos yields each result once, then returns", func(b *broken) {
		b.fileInfos = func(ctx context.Context, ids []codec.FileID, yield func(i int, fi *shard.FileInfo, err error)) {
			b.Source.FileInfos(ctx, append(slices.Clone(ids), ids[0]), func(i int, fi *shard.FileInfo, err error) {
				yield(i%len(ids), fi, err)
			})
		}
	}},
	{"FileInfos yields each result once, then returns", func(b *broken) {
		b.fileInfos = func(ctx context.Context, ids []codec.FileID, yield func(i int, fi *shard.FileInfo, err error)) {
			b.Source.FileInfos(ctx, ids[1:], func(i int, fi *shard.FileInfo, err error) { yield(i+1, fi, err) })
		}
	}},
	{"FileInfos of a remote source combines requests", func(b *broken) {
		b.fileInfos = func(ctx context.Context, ids []codec.FileID, yield func(i int, fi *shard.FileInfo, err error)) {
			for i, id := range ids {
				fi, err := b.renew().FileInfo(ctx, id)
				yield(i, fi, err)
			}
		}
	}},
	{"Narrow returns chunks with the piece", func(b *broken) {
		b.narrow = func(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (codec.ChunkRange, int64, error) {
			r, skip, err := b.Source.Narrow(ctx, id, t, p)
			return r, skip + 1, err
		}
	}},
	{"Narrow refuses terms that do not fit", func(b *broken) {
		b.narrow = func(_ context.Context, _ codec.FileID, t codec.Term, p codec.Piece) (codec.ChunkRange, int64, error) {
			return t.Chunks, p.Skip, nil
		}
	}},
	{"Chunks returns chunks as stored", func(b *broken) {
		b.chunks = func(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
			run, err := b.Source.Chunks(ctx, x, r, o)
			if err == nil {
				run = cloneRun(run)
				run.Packed[len(run.Packed)-1] ^= 1
			}
			return run, err
		}
	}},
	{"Chunks refuses ranges that do not fit", func(b *broken) {
		b.chunks = func(ctx context.Context, x codec.Hash, _ codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
			return b.Source.Chunks(ctx, x, codec.ChunkRange{End: 1}, o)
		}
	}},
	{"Chunks costs one request", func(b *broken) {
		b.chunks = func(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
			if _, err := b.Source.Chunks(ctx, x, r, origin.ReadOptions{}); err != nil {
				return nil, err
			}
			return b.Source.Chunks(ctx, x, r, o)
		}
	}},
	{"Chunks calls Buffer at most once, for the run", func(b *broken) {
		b.chunks = func(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
			if o.Buffer != nil {
				o.Buffer(1)
			}
			return b.Source.Chunks(ctx, x, r, o)
		}
	}},
	{"Chunks leaves the run to the caller", func(b *broken) { b.chunks = b.cachedChunks() }},
	{"Chunks calls OnPartial with more chunks, never all", func(b *broken) {
		b.chunks = func(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
			run, err := b.Source.Chunks(ctx, x, r, o)
			if err == nil && o.OnPartial != nil {
				o.OnPartial(run)
			}
			return run, err
		}
	}},
	{"TryChunks returns the same", func(b *broken) {
		b.tryChunks = func(codec.Hash, codec.ChunkRange, func(int) []byte) (*xorb.Run, bool) { return new(xorb.Run), true }
	}},
	{"TryChunks does not wait for the store", func(b *broken) {
		b.tryChunks = func(x codec.Hash, r codec.ChunkRange, buffer func(int) []byte) (*xorb.Run, bool) {
			run, err := b.Source.Chunks(context.Background(), x, r, origin.ReadOptions{Buffer: buffer})
			return run, err == nil
		}
	}},
	{"TryChunks keeps no memory without a run", func(b *broken) {
		var memory []byte
		b.tryChunks = func(_ codec.Hash, _ codec.ChunkRange, buffer func(int) []byte) (*xorb.Run, bool) {
			memory = buffer(100)
			return nil, false
		}
		b.chunks = func(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
			run, err := b.Source.Chunks(ctx, x, r, o)
			if err == nil && memory != nil {
				run = cloneRun(run)
				run.Packed[0] = memory[0]
			}
			return run, err
		}
	}},
	{"Annotate returns the run of Chunks", func(b *broken) {
		b.annotate = func(_ context.Context, _ codec.Hash, run *xorb.Run) (*xorb.Run, error) { return run, nil }
	}},
	{"Annotate does not change the given run", func(b *broken) {
		b.annotate = func(ctx context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, error) {
			annotated, err := b.Source.Annotate(ctx, x, run)
			if err == nil {
				*run = *annotated
			}
			return run, err
		}
	}},
	{"Annotate refuses runs of other xorbs", func(b *broken) {
		b.annotate = func(_ context.Context, _ codec.Hash, run *xorb.Run) (*xorb.Run, error) { return run, nil }
	}},
	{"Hashed chunks have hashes", func(b *broken) {
		b.chunks = func(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
			run, err := b.Source.Chunks(ctx, x, r, o)
			if err != nil {
				return nil, err
			}
			return xorb.ParseRun(run.Packed, r, nil)
		}
	}},
	{"Reject returns the number of other replicas", func(b *broken) { b.reject = func(codec.Hash) int { return 1 } }},
	{"Reject makes Chunks read another replica", func(b *broken) {
		b.reject = func(x codec.Hash) int { return b.Source.Reject(x) + 1 }
	}},
	{"Reject makes Chunks read another replica", func(b *broken) { b.chunks = b.cachedChunks() }},
	{"Forget makes FileInfo read the store", func(b *broken) {
		files := map[codec.FileID]*shard.FileInfo{}
		b.fileInfo = func(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
			if files[id] == nil {
				fi, err := b.Source.FileInfo(ctx, id)
				if err != nil {
					return nil, err
				}
				files[id] = fi
			}
			return files[id], nil
		}
	}},
	{"Forget makes FileInfo read the store", func(b *broken) { b.forget = func(codec.FileID) {} }},
	{"Local is the cost class", func(b *broken) { b.local = func() bool { return !b.Source.Local() } }},
	{"results are read-only", func(b *broken) {
		memory := make([]byte, 1<<20) // of all runs
		b.chunks = func(ctx context.Context, x codec.Hash, r codec.ChunkRange, _ origin.ReadOptions) (*xorb.Run, error) {
			return b.Source.Chunks(ctx, x, r, origin.ReadOptions{Buffer: func(n int) []byte { return memory[:n] }})
		}
	}},
	{"concurrent calls", func(b *broken) {
		var mu sync.Mutex
		b.chunks = func(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
			if !mu.TryLock() {
				return nil, fmt.Errorf("busy: %w", origin.ErrUnavailable)
			}
			defer mu.Unlock()
			time.Sleep(time.Millisecond) // other callers run
			return b.Source.Chunks(ctx, x, r, o)
		}
	}},
	{"canceled calls", func(b *broken) {
		var canceled error
		b.chunks = func(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
			if canceled == nil {
				canceled = ctx.Err()
			}
			if canceled != nil {
				return nil, canceled
			}
			return b.Source.Chunks(ctx, x, r, o)
		}
	}},
}

func anyFile(_ context.Context, id codec.FileID) (*shard.FileInfo, error) {
	return &shard.FileInfo{File: id.File}, nil
}

// cloneRun returns a run with memory of its own.
func cloneRun(run *xorb.Run) *xorb.Run {
	c := *run
	c.Packed = bytes.Clone(run.Packed)
	return &c
}

// cachedChunks returns the first run of each range.
func (b *broken) cachedChunks() func(context.Context, codec.Hash, codec.ChunkRange, origin.ReadOptions) (*xorb.Run, error) {
	runs := map[codec.ChunkRange]*xorb.Run{}
	return func(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (run *xorb.Run, err error) {
		if runs[r] == nil {
			runs[r], err = b.Source.Chunks(ctx, x, r, o)
		}
		return runs[r], err
	}
}

// TestBrokenSources proves that each check of the suite can fail. A good Source passes it, and a
// Source that violates the sentence does not.
func TestBrokenSources(t *testing.T) {
	for _, clause := range clauses {
		t.Run(clause.name, func(t *testing.T) {
			check := func(change func(b *broken)) (failure string) {
				suite := SourceSuite{Local: origin.Local, Open: func(_ *testing.T, s origin.Store) origin.Source {
					b := newBroken(s)
					change(b)
					return b
				}}
				return run(t, suite.contract(t, 0), clause.check)
			}
			if failure := check(func(*broken) {}); failure != "" {
				t.Errorf("a good Source fails: %s", failure)
			}
			violated := 0
			for _, v := range violations {
				if v.clause != clause.name {
					continue
				}
				if violated++; check(v.change) == "" {
					t.Errorf("violation %d is not found", violated)
				}
			}
			if violated == 0 {
				t.Error("no Source violates this sentence")
			}
		})
	}
}

// run returns the first failure of a check, or nothing.
func run(t *testing.T, c *contract, check func(c *contract, t testing.TB)) string {
	r := &recorder{TB: t}
	var done sync.WaitGroup
	done.Go(func() { check(c, r) }) // a Fatal ends this goroutine
	done.Wait()
	return r.failure
}

// A recorder records failures instead of failing the test.
type recorder struct {
	testing.TB

	mu      sync.Mutex
	failure string // the first one; guarded by mu
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == "" {
		r.failure = fmt.Sprintf(format, args...)
	}
}

func (r *recorder) Error(args ...any) { r.Errorf("%s", fmt.Sprint(args...)) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }
