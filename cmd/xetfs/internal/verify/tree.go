package verify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/reconstruct"
)

// TreeCounts are the results of Tree beside the report.
type TreeCounts struct {
	Entries int64 // with the root
	Files   int64
}

// Tree reads every file of a tree through a cache and compares it with all its hashes. Faults
// go to the report.
func Tree(ctx context.Context, t catalog.Tree, c *cache.Cache, r *reconstruct.Reader, rep Report, bar *ui.Progress) TreeCounts {
	check := &treeCheck{
		cache: c, reader: r, tree: t, report: rep, bar: bar, counts: TreeCounts{Entries: 1},
		seen: map[page.ContentKey]struct{}{}, bad: map[page.ContentKey]badContent{},
	}
	check.run(ctx)
	return check.counts
}

// remoteFileWorkers is the number of remote files that are read at a time; most of them wait
// for answers. Large files are limited to fileWorkers, because each is fetched in parallel
// pieces.
const remoteFileWorkers = 32

// largeFile is the size of a file that is read in many parallel pieces.
const largeFile = 8 << 20

// A treeCheck reads every file of a tree. Content with several names is read once, which costs
// 32 bytes of memory for each content.
type treeCheck struct {
	cache  *cache.Cache
	reader *reconstruct.Reader
	tree   catalog.Tree
	report Report
	bar    *ui.Progress

	counts TreeCounts
	seen   map[page.ContentKey]struct{}

	mu  sync.Mutex
	bad map[page.ContentKey]badContent // guarded by mu
}

// A badContent is damaged content, with the first name that it was found under.
type badContent struct {
	path string
	err  error
}

// run checks everything and reports all faults.
func (c *treeCheck) run(ctx context.Context) {
	c.bar.Expect(c.tree.Version().Bytes)
	c.bar.Start()
	jobs := make(chan page.Entry, 16)
	var workers sync.WaitGroup
	count := localFileWorkers()
	large := make(chan struct{}, count)
	if !c.cache.Local() {
		count, large = remoteFileWorkers, make(chan struct{}, fileWorkers)
	}
	for range count {
		workers.Go(func() {
			for e := range jobs {
				if e.Size >= largeFile {
					large <- struct{}{}
				}
				c.check(ctx, &e)
				if e.Size >= largeFile {
					<-large
				}
			}
		})
	}
	c.walk(ctx, func(e page.Entry) { c.first(ctx, jobs, e) }, c.report.Fault)
	close(jobs)
	workers.Wait()
	if len(c.bad) > 0 && ctx.Err() == nil {
		c.walk(ctx, c.again, func(Fault) {}) // folders that cannot be listed are reported already
	}
}

// walk calls do for each entry of the tree, and found for each folder that cannot be listed.
func (c *treeCheck) walk(ctx context.Context, do func(page.Entry), found func(Fault)) {
	for e, err := range catalog.Walk(ctx, c.tree, "") {
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			found(Fault{Path: cmp.Or(e.Path, "."), Err: err})
		default:
			do(e)
		}
	}
}

// first queues a file whose content was not seen before.
func (c *treeCheck) first(ctx context.Context, jobs chan<- page.Entry, e page.Entry) {
	c.counts.Entries++
	if e.Type != page.File {
		return
	}
	c.counts.Files++
	if e.Size == 0 && len(e.Inline) == 0 && e.SHA256 == nil {
		return
	}
	sum := e.ContentKey()
	if _, ok := c.seen[sum]; ok && len(e.Inline) == 0 {
		c.bar.Add(e.Size)
		return
	}
	if len(e.Inline) == 0 {
		c.seen[sum] = struct{}{}
	}
	select {
	case jobs <- e:
	case <-ctx.Done():
	}
}

// again reports a file whose content is damaged under another name.
func (c *treeCheck) again(e page.Entry) {
	if e.Type != page.File || len(e.Inline) > 0 {
		return
	}
	if bad, ok := c.bad[e.ContentKey()]; ok && bad.path != e.Path {
		c.report.Fault(Fault{Path: e.Path, Kind: "file", Hash: e.ID.File, Err: bad.err})
	}
}

// check compares the content of a file with all hashes of its entry.
func (c *treeCheck) check(ctx context.Context, e *page.Entry) {
	var done int64
	err := c.read(ctx, e, func(n int64) {
		done += n
		c.bar.Add(n)
	})
	c.bar.Add(e.Size - done)
	if ui.IsCanceled(ctx, err) {
		return
	}
	c.report.File(done)
	if err == nil {
		return
	}
	if len(e.Inline) == 0 {
		c.mu.Lock()
		c.bad[e.ContentKey()] = badContent{e.Path, err}
		c.mu.Unlock()
	}
	c.report.Fault(Fault{Path: e.Path, Kind: "file", Hash: e.Hash(), Err: err})
}

func (c *treeCheck) read(ctx context.Context, e *page.Entry, read func(int64)) error {
	if e.Size == 0 || len(e.Inline) > 0 {
		read(e.Size)
		if e.SHA256 != nil && sha256.Sum256(e.Inline) != *e.SHA256 {
			return codec.Corrupt("entry", 0, "its content has another SHA-256 than it says")
		}
		return nil
	}
	info, err := c.cache.FileInfo(ctx, e.ID)
	switch {
	case errors.Is(err, origin.ErrNotFound):
		return fmt.Errorf("a shard is missing: %w", err)
	case err != nil:
		return err
	case info.Size() != e.Size:
		return codec.Corrupt("terms", 0, "hold %d bytes, the entry says %d", info.Size(), e.Size)
	}
	if e.SHA256 != nil {
		said := *info
		said.SHA256 = *e.SHA256
		info = &said
	}
	err = c.reader.Check(ctx, info, read)
	if errors.Is(err, origin.ErrNotFound) {
		err = fmt.Errorf("a xorb is missing: %w", err)
	}
	return err
}
