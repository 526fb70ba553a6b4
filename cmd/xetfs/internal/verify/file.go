package verify

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"runtime"
	"sync"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// The number of files that are checked at a time. All cores unpack the chunks of each file, and
// one core computes its SHA-256. With two files, one keeps the cores busy while the other waits
// for bytes. A local file needs up to 8 MiB of memory.
const (
	fileWorkers         = 2
	maxLocalFileWorkers = 8
)

// localFileWorkers returns the number of local files that are checked at a time.
func localFileWorkers() int {
	return min(max(fileWorkers, runtime.GOMAXPROCS(0)), maxLocalFileWorkers)
}

// A fileJob is a file to be checked, and the path of the shard that describes it.
type fileJob struct {
	path string
	info *shard.FileInfo
}

// A fileChecks passes files from the shards to the workers that check them.
type fileChecks struct {
	v       *verifier
	jobs    chan fileJob
	workers sync.WaitGroup
}

func (v *verifier) startFiles(ctx context.Context) *fileChecks {
	c := &fileChecks{v: v, jobs: make(chan fileJob, 16)}
	for range localFileWorkers() {
		c.workers.Go(func() {
			for job := range c.jobs {
				v.checkFile(ctx, job)
			}
		})
	}
	return c
}

// check queues a file, unless a block with the same content was checked before.
func (c *fileChecks) check(ctx context.Context, job fileJob) {
	if !c.v.firstTime(job.info) {
		c.v.Bar.Add(job.info.Size())
		return
	}
	select {
	case c.jobs <- job:
	case <-ctx.Done():
	}
}

func (c *fileChecks) wait() {
	close(c.jobs)
	c.workers.Wait()
}

// checkFile reads a file and compares it with all its hashes.
func (v *verifier) checkFile(ctx context.Context, job fileJob) {
	var done int64
	err := v.Reader.CheckChunks(ctx, job.info, func(n int64) {
		done += n
		v.Bar.Add(n)
	}, v.proven.add)
	v.Bar.Add(job.info.Size() - done)
	if ui.IsCanceled(ctx, err) {
		return
	}
	v.report.File(done)
	if err == nil {
		return
	}
	if errors.Is(err, origin.ErrNotFound) {
		err = fmt.Errorf("a xorb is missing: %w", err)
	}
	var corrupt *codec.CorruptError
	if !errors.As(err, &corrupt) {
		err = fmt.Errorf("file info block at byte %d: %w", job.info.Block, err)
	}
	v.report.Fault(Fault{Path: job.path, Kind: "file", Hash: job.info.File, Err: err})
}

// A blockSum identifies the content of a File Info block.
type blockSum [16]byte

// firstTime reports whether no block with the same content was seen before.
func (v *verifier) firstTime(fi *shard.FileInfo) bool {
	sum := sumBlock(fi)
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.seen[sum]; ok {
		return false
	}
	v.seen[sum] = struct{}{}
	return true
}

func sumBlock(fi *shard.FileInfo) blockSum {
	h := sha256.New()
	h.Write(fi.File[:])
	h.Write(fi.SHA256[:])
	writeNumbers(h, uint64(len(fi.Terms)), uint64(len(fi.Verify)))
	for _, t := range fi.Terms {
		h.Write(t.Xorb[:])
		writeNumbers(h, uint64(t.Chunks.Start), uint64(t.Chunks.End), uint64(t.Size))
	}
	for _, v := range fi.Verify {
		h.Write(v[:])
	}
	return blockSum(h.Sum(nil))
}

func writeNumbers(h hash.Hash, numbers ...uint64) {
	var b [8]byte
	for _, n := range numbers {
		h.Write(binary.LittleEndian.AppendUint64(b[:0], n))
	}
}
