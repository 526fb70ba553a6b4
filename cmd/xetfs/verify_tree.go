package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/inspect"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// verifySymbol checks the files of one tree of a catalog and prints what it finds.
func verifySymbol(cmd *cobra.Command, folder, symbol string, asJSON bool) error {
	t, err := parseTarget(symbol)
	if err != nil {
		return err
	}
	return withSource(cmd, folder, false, func(ctx context.Context, s *source) error {
		tree, _, err := s.open(ctx, []string{symbol}, 0)
		if err != nil {
			return err
		}
		c := &treeCheck{s: s, tree: tree, entries: 1, seen: map[contentSum]struct{}{}, bad: map[contentSum]badContent{}}
		c.bar = ui.NewProgress(cmd.ErrOrStderr(), "verify")
		c.report = newFindings(cmd.OutOrStdout(), c.bar, asJSON)
		ctx, c.report.stop = context.WithCancel(ctx)
		defer c.report.stop()
		c.run(ctx)
		c.bar.Clear()
		if err := c.report.machineError(); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return c.finish(t)
	})
}

// farFileWorkers is how many files of a far tree are read at a time, most of which wait for
// answers. Of large ones no more than near by: each is fetched in many pieces at once.
const farFileWorkers = 32

// A treeCheck reads every file of a tree. Content that is there under several names is
// read once, for which it takes 32 bytes of memory for each.
type treeCheck struct {
	s      *source
	tree   catalog.Tree
	report *findings
	bar    *ui.Progress

	entries int64 // the root is one
	files   int64
	seen    map[contentSum]struct{}

	mu  sync.Mutex
	bad map[contentSum]badContent // guarded by mu
}

// A contentSum tells what entries say of their content apart: 16 bytes are enough for
// that.
type contentSum [16]byte

// A badContent is content that was found damaged under one name.
type badContent struct {
	path string
	err  error
}

func sumOf(e *page.Entry) contentSum {
	h := sha256.New()
	h.Write(e.ID.File[:])
	writeNumbers(h, uint64(e.Size))
	if e.SHA256 != nil {
		h.Write(e.SHA256[:])
	}
	return contentSum(h.Sum(nil))
}

// run checks everything. What is wrong goes into the report.
func (c *treeCheck) run(ctx context.Context) {
	c.bar.Expect(c.tree.Version().Bytes)
	c.bar.Start()
	jobs := make(chan page.Entry, 16)
	var workers sync.WaitGroup
	count, large := fileWorkers, make(chan struct{}, fileWorkers)
	if !c.s.cache.Near() {
		count = farFileWorkers
	}
	for range count {
		workers.Go(func() {
			for e := range jobs {
				if e.Size >= leastLarge {
					large <- struct{}{}
				}
				c.check(ctx, &e)
				if e.Size >= leastLarge {
					<-large
				}
			}
		})
	}
	c.walk(ctx, func(e page.Entry) { c.first(ctx, jobs, e) }, c.report.fault)
	close(jobs)
	workers.Wait()
	if len(c.bad) > 0 && ctx.Err() == nil {
		c.walk(ctx, c.again, func(fault) {}) // folders that cannot be listed are reported already
	}
}

// walk calls do for each entry of the tree, and found for a folder that cannot be listed.
func (c *treeCheck) walk(ctx context.Context, do func(page.Entry), found func(fault)) {
	for e, err := range catalog.Walk(ctx, c.tree, "") {
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			found(fault{path: dirName(e.Path), err: err})
		default:
			do(e)
		}
	}
}

// dirName is what people call a folder of a tree.
func dirName(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}

// first has a file read whose content was not seen before.
func (c *treeCheck) first(ctx context.Context, jobs chan<- page.Entry, e page.Entry) {
	c.entries++
	if e.Type != page.File {
		return
	}
	c.files++
	if e.Size == 0 && len(e.Inline) == 0 && e.SHA256 == nil {
		return
	}
	sum := sumOf(&e)
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

// again names a file whose content was found damaged under another name.
func (c *treeCheck) again(e page.Entry) {
	if e.Type != page.File || len(e.Inline) > 0 {
		return
	}
	if bad, ok := c.bad[sumOf(&e)]; ok && bad.path != e.Path {
		c.report.fault(fault{path: e.Path, kind: "file", hash: e.ID.File, err: bad.err})
	}
}

// check compares the content of a file with all that its entry says.
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
	c.report.file(done)
	if err == nil {
		return
	}
	if len(e.Inline) == 0 {
		c.mu.Lock()
		c.bad[sumOf(e)] = badContent{e.Path, err}
		c.mu.Unlock()
	}
	c.report.fault(fault{path: e.Path, kind: "file", hash: inspect.ContentHash(e), err: err})
}

func (c *treeCheck) read(ctx context.Context, e *page.Entry, read func(int64)) error {
	if e.Size == 0 || len(e.Inline) > 0 {
		read(e.Size)
		if e.SHA256 != nil && sha256.Sum256(e.Inline) != *e.SHA256 {
			return codec.Corrupt("entry", 0, "its content has another SHA-256 than it says")
		}
		return nil
	}
	info, err := c.s.cache.FileInfo(ctx, e.ID)
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
	err = c.s.reader.Check(ctx, info, read)
	if errors.Is(err, origin.ErrNotFound) {
		err = fmt.Errorf("a xorb is missing: %w", err)
	}
	return err
}

// finish prints the counts. It returns errDamage if there was any.
func (c *treeCheck) finish(t target) error {
	f := c.report
	f.mu.Lock()
	defer f.mu.Unlock()
	sound := f.counts.faults == 0
	if f.doc != nil {
		f.doc.End()
		f.doc.Field("symbol", t.symbol)
		versionFields(f.doc, c.tree.Version())
		f.doc.Field("entries", c.entries)
		f.doc.Field("files", c.files)
		f.doc.Field("contents", f.counts.files)
		f.doc.Field("bytes", f.counts.bytes)
		f.doc.Field("sound", sound)
		f.err = cmp.Or(f.err, f.doc.Close())
	} else {
		f.err = cmp.Or(f.err, c.summary(f.w, t))
	}
	switch {
	case f.err != nil:
		return f.err
	case !sound:
		return errDamage
	}
	return nil
}

func (c *treeCheck) summary(w io.Writer, t target) error {
	verdict := "all sound"
	if n := c.report.counts.faults; n > 0 {
		verdict = ui.Plural(n, "fault")
	}
	_, err := fmt.Fprintf(w, "%s, %s: %s, %s, %s with %d bytes read: %s\n", ui.Printable(t.symbol), versionName(c.tree.Version()),
		ui.Plural(c.entries, "entry"), ui.Plural(c.files, "file"), ui.Plural(c.report.counts.files, "content"), c.report.counts.bytes, verdict)
	if err == nil && c.report.counts.faults > 0 && !isWeb(c.s.folder) {
		_, err = fmt.Fprintf(w, "to store missing or damaged content again: xetfs publish --checksum %s %s FOLDER\n", ui.ShellWord(c.s.folder), ui.ShellWord(t.symbol))
	}
	return err
}
