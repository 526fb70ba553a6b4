package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A warming is one run of warm. It looks through the files twice: to learn how much there
// is to do, and to do it. Content that is there under several names is fetched once, for
// which it takes 16 bytes of memory for each.
type warming struct {
	s       *source
	tree    catalog.Tree
	paths   []string
	chunks  bool // keep packed chunks, not whole files
	bar     *ui.Progress
	errOut  io.Writer
	command string

	began time.Time
	all   selection
	room  *semaphore.Weighted // for rows on their way, in bytes
	round int64               // bytes of a round

	leftOut int64 // damaged shards, where all of SOURCE is warmed

	mu      sync.Mutex
	already int64 // files; guarded by mu
	failed  int64 // guarded by mu
}

// A selection is the content that is to be kept.
type selection struct {
	files, bytes int64
	room         int64 // that whole files take on disk
	absent       int64 // of that, what is not there yet
}

// A warmFile is the content of a file to be kept.
type warmFile struct {
	path string // of the first file that has it
	id   codec.FileID
	size int64
	sum  *[32]byte // SHA-256 that the content must have; nil: that of its shard, if it has one
	name bool      // sum is a claim of the path
}

// So many files are laid down at a time: most of the time goes by in waiting for the disk to
// say that they last. Large ones are fetched in many pieces at once, and take memory for them.
const (
	warmers      = 16
	largeWarmers = 4
	leastLarge   = 8 << 20 // bytes of a file from which on it is large
)

// setPaths sets what is to be warmed: all, if nothing is named.
func (w *warming) setPaths(ctx context.Context, paths []string) error {
	for _, p := range paths {
		p, err := findPath(ctx, w.tree, p)
		if err != nil {
			return err
		}
		w.paths = append(w.paths, p)
	}
	switch {
	case len(paths) > 0:
	case w.s.bare != nil:
		w.paths = []string{"shards"} // the other folders have the same files, but not side by side
		w.leftOut = int64(len(w.s.bare.Damaged()))
	default:
		w.paths = []string{""}
	}
	return nil
}

// run fetches everything. The error is why it cannot go on; a damaged file is none.
func (w *warming) run(ctx context.Context, kept *cacheFolder) error {
	w.began = time.Now()
	if err := w.plan(ctx); err != nil {
		return err
	}
	if err := w.fits(kept); err != nil {
		return err
	}
	w.bar.Expect(w.all.bytes)
	w.bar.Start()
	return w.warmAll(ctx, kept)
}

// warmAll keeps everything: several files at a time, but for the small ones of a far source,
// which go into lots.
func (w *warming) warmAll(ctx context.Context, kept *cacheFolder) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var going sync.WaitGroup
	begin := func(workers int) chan<- warmFile {
		jobs := make(chan warmFile)
		for range workers {
			going.Go(func() {
				for f := range jobs {
					if err := w.warm(ctx, f); err != nil {
						stop(err)
					}
				}
			})
		}
		return jobs
	}
	small, large, lots := begin(warmers), begin(largeWarmers), w.newLots(ctx, kept)
	err := w.each(ctx, func(f warmFile) error {
		to := small
		switch {
		case f.size >= leastLarge:
			to = large
		case !w.s.cache.Near():
			return lots.add(f)
		}
		select {
		case to <- f:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
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

// plan adds up what is to be kept.
func (w *warming) plan(ctx context.Context) error {
	return w.each(ctx, func(c warmFile) error {
		const block = 4 << 10
		room := (c.size + block - 1) / block * block
		w.all.files++
		w.all.bytes += c.size
		w.all.room += room
		if !w.s.cache.HasFile(c.id.File) {
			w.all.absent += room
		}
		return nil
	})
}

// each calls do for every content that is to be kept, once.
func (w *warming) each(ctx context.Context, do func(warmFile) error) error {
	seen := map[page.ContentKey]struct{}{}
	l := listing{recursive: true}
	for _, p := range w.paths {
		l.dir = p
		err := l.walk(ctx, w.tree, func(e page.Entry) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if e.Type == page.Symlink && e.Path == p {
				return fmt.Errorf("%s: is a link to %s; name the file itself", p, ui.QuoteName(e.Target))
			}
			if e.Type != page.File || e.Size == 0 || len(e.Inline) > 0 {
				return nil // those are in the index, or nowhere
			}
			c := warmFile{path: e.Path, id: e.ID, size: e.Size, sum: expectedSHA256(w.tree, &e), name: e.SHA256 == nil}
			c.name = c.name && c.sum != nil
			e.SHA256 = c.sum
			content := e.ContentKey()
			if _, ok := seen[content]; ok {
				return nil
			}
			seen[content] = struct{}{}
			return do(c)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Of the disk cache whole files may take all but one part in so many. The rest is for
// chunks that mounts fetch, the index, and room to move.
const warmReserve = 8

// fits refuses what would not fit into the disk cache. How much packed chunks take is not
// known before they are there; what is there of them is used later, or makes room.
func (w *warming) fits(kept *cacheFolder) error {
	if w.chunks {
		return nil
	}
	most := kept.options.MaxBytes
	if w.all.room > most-most/warmReserve {
		least := ui.ByteSize((w.all.room/(warmReserve-1)*warmReserve>>20 + 1) << 20)
		return fmt.Errorf("%s with %s do not fit into a disk cache of %s; give it at least --cache-size %s, or name fewer PATHs",
			ui.Plural(w.all.files, "file"), ui.HumanSize(w.all.bytes), ui.HumanSize(most), &least)
	}
	free, err := fileSystemFree(kept.path)
	if err != nil {
		return fmt.Errorf("%s: %w", kept.path, err)
	}
	free -= max(0, kept.options.MinFree)
	others := w.s.disk.Stats().Bytes - (w.all.room - w.all.absent) // which make room
	if w.all.absent > max(0, free)+max(0, others) {
		return fmt.Errorf("%s: %s are missing, and beside what --cache-free keeps clear there is room for %s; make room, or name another folder with --cache-dir",
			kept.path, ui.HumanSize(w.all.absent), ui.HumanSize(max(0, free)))
	}
	return nil
}

// warm keeps the content of one file. The error is why no other could be kept either.
func (w *warming) warm(ctx context.Context, c warmFile) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	there := !w.chunks && w.s.cache.HasFile(c.id.File) && !c.name
	var done int64
	read := func(n int64) {
		done += n
		w.bar.Add(n)
	}
	var err error
	switch {
	case w.chunks:
		if there, err = w.keepChunks(ctx, c, read); err == nil {
			err = w.compare(ctx, c)
		}
	case c.name && w.s.cache.HasFile(c.id.File):
		err = w.compare(ctx, c)
	case !there:
		err = w.s.reader.Materialize(ctx, c.id, c.sum, read)
	}
	w.bar.Add(c.size - done)
	return w.ended(ctx, c, there, err)
}

// compare reads a file without a name in a catalog and compares its SHA-256, which only a
// shard claims. An index page proves that of other files.
func (w *warming) compare(ctx context.Context, c warmFile) error {
	if w.s.bare == nil {
		return nil
	}
	info, err := w.s.cache.FileInfo(ctx, c.id)
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
	return w.s.reader.Check(ctx, info, func(int64) {})
}

// ended takes notice of what became of a file. The error is why no other could be kept
// either.
func (w *warming) ended(ctx context.Context, c warmFile, there bool, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil && there:
		w.already++
	case err == nil:
	case ui.IsCanceled(ctx, err):
		return ctx.Err()
	case theFile(err):
		w.failed++
		w.bar.Clear()
		fmt.Fprintln(w.errOut, ui.NoticeLine(w.command, fmt.Sprintf("%s: %v", c.path, err)))
	default:
		return fmt.Errorf("%s: %w", c.path, err)
	}
	return nil
}

// theFile says whether an error is that of one file, and others may be kept.
func theFile(err error) bool {
	return errors.Is(err, codec.ErrCorrupt) || errors.Is(err, origin.ErrNotFound)
}

// finish prints the summary. It returns errDamage if anything is damaged.
func (w *warming) finish(out io.Writer, asJSON bool) error {
	took := time.Since(w.began)
	fetched := w.s.asked.Load().Bytes
	var err error
	if asJSON {
		doc := ui.NewDocument(out)
		doc.Field("files", w.all.files)
		doc.Field("bytes", w.all.bytes)
		doc.Field("already", w.already)
		doc.Field("fetched", fetched)
		doc.Field("failed", w.failed)
		doc.Field("seconds", took.Seconds())
		err = doc.Close()
	} else {
		_, err = fmt.Fprintf(out, "%s with %s, %d of them there already; %s fetched in %v", ui.Plural(w.all.files, "file"),
			ui.HumanSize(w.all.bytes), w.already, ui.HumanSize(fetched), took.Round(time.Millisecond))
		if w.failed > 0 && err == nil {
			_, err = fmt.Fprintf(out, "; %d failed", w.failed)
		}
		if w.leftOut > 0 && err == nil {
			_, err = fmt.Fprintf(out, "; %s left out", ui.Plural(w.leftOut, "shard"))
		}
		if err == nil {
			_, err = fmt.Fprintln(out)
		}
	}
	if err == nil && w.failed+w.leftOut > 0 {
		return errDamage
	}
	return err
}
