package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A warming is one run of warm. It looks through the files twice: to learn how much there
// is to do, and to do it. Content that is there under several names is fetched once, for
// which it takes 32 bytes of memory for each.
type warming struct {
	s       *source
	tree    catalog.Tree
	paths   []string
	chunks  bool // keep packed chunks, not whole files
	bar     *progress
	errOut  io.Writer
	command string

	began time.Time
	all   selection
	slots chan struct{} // of large files

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

// So many files are kept at a time: from afar most of the time goes by in waiting for
// answers, and for the disk to say that a file lasts. Large ones are fetched in many pieces
// at once, and take memory for them.
const (
	farWarmers  = 32
	nearWarmers = 2

	warmLarge = 1 << 20 // bytes of a file from which on it is large
	warmSlots = 4       // large files at a time
)

// setPaths sets what is to be warmed: all, if nothing is named.
func (w *warming) setPaths(paths []string) {
	for _, p := range paths {
		w.paths = append(w.paths, cleanPath(p))
	}
	switch {
	case len(paths) > 0:
	case w.s.bare != nil:
		w.paths = []string{"by-hash"} // the other folders have the same files
	default:
		w.paths = []string{""}
	}
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
	w.bar.expect(w.all.bytes)
	w.bar.start()
	return w.warmAll(ctx)
}

// warmAll keeps everything, several files at a time.
func (w *warming) warmAll(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	w.slots = make(chan struct{}, warmSlots)
	jobs := make(chan page.Entry)
	var workers sync.WaitGroup
	count := farWarmers
	if w.s.cache.Near() {
		count = nearWarmers
	}
	for range count {
		workers.Go(func() {
			for e := range jobs {
				if err := w.warm(ctx, &e); err != nil {
					stop(err)
				}
			}
		})
	}
	err := w.each(ctx, func(e page.Entry) error {
		select {
		case jobs <- e:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	close(jobs)
	workers.Wait()
	return firstErr(context.Cause(ctx), err)
}

// plan adds up what is to be kept.
func (w *warming) plan(ctx context.Context) error {
	return w.each(ctx, func(e page.Entry) error {
		const block = 4 << 10
		room := (e.Size + block - 1) / block * block
		w.all.files++
		w.all.bytes += e.Size
		w.all.room += room
		if !w.s.cache.HasWhole(e.ID.File) {
			w.all.absent += room
		}
		return nil
	})
}

// each calls do for every content that is to be kept, once.
func (w *warming) each(ctx context.Context, do func(page.Entry) error) error {
	seen := map[codec.Hash]struct{}{}
	l := listing{recursive: true}
	for _, p := range w.paths {
		l.dir = p
		err := l.walk(ctx, w.tree, func(e page.Entry) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if e.Type == page.Symlink && e.Path == p {
				return fmt.Errorf("%s: is a link to %q; name the file itself", p, e.Target)
			}
			if e.Type != page.File || e.Size == 0 || len(e.Inline) > 0 {
				return nil // those are in the index, or nowhere
			}
			if _, ok := seen[e.ID.File]; ok {
				return nil
			}
			seen[e.ID.File] = struct{}{}
			return do(e)
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
		least := byteSize((w.all.room/(warmReserve-1)*warmReserve>>20 + 1) << 20)
		return fmt.Errorf("%s with %s do not fit into a disk cache of %s; give it at least --cache-size %s, or name fewer PATHs",
			many(w.all.files, "file"), human(w.all.bytes), human(most), &least)
	}
	free, err := fileSystemFree(kept.path)
	if err != nil {
		return fmt.Errorf("%s: %w", kept.path, err)
	}
	free -= max(0, kept.options.MinFree)
	others := w.s.disk.Stats().Bytes - (w.all.room - w.all.absent) // which make room
	if w.all.absent > max(0, free)+max(0, others) {
		return fmt.Errorf("%s: %s are missing, and beside what --cache-free keeps clear there is room for %s; make room, or name another folder with --cache-dir",
			kept.path, human(w.all.absent), human(max(0, free)))
	}
	return nil
}

// warm keeps the content of a file. The error is why no other could be kept either.
func (w *warming) warm(ctx context.Context, e *page.Entry) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e.Size >= warmLarge {
		w.slots <- struct{}{}
		defer func() { <-w.slots }()
	}
	var done int64
	read := func(n int64) {
		done += n
		w.bar.add(n)
	}
	there, err := false, error(nil)
	if w.chunks {
		there, err = w.keepChunks(ctx, e, read)
	} else if there = w.s.cache.HasWhole(e.ID.File); !there {
		err = w.s.reader.Keep(ctx, e.ID, read)
	}
	w.bar.add(e.Size - done)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil && there:
		w.already++
	case err == nil:
	case ended(ctx, err):
		return ctx.Err()
	case errors.Is(err, codec.ErrCorrupt), errors.Is(err, origin.ErrNotFound):
		w.failed++
		w.bar.clear()
		fmt.Fprintln(w.errOut, aside(w.command, fmt.Sprintf("%s: %v", e.Path, err)))
	default:
		return fmt.Errorf("%s: %w", e.Path, err)
	}
	return nil
}

// finish prints the summary. It returns errDamage if a file is damaged.
func (w *warming) finish(out io.Writer, asJSON bool) error {
	took := time.Since(w.began)
	fetched := w.s.asked.Load().Bytes
	var err error
	if asJSON {
		doc := newDocument(out)
		doc.field("files", w.all.files)
		doc.field("bytes", w.all.bytes)
		doc.field("already", w.already)
		doc.field("fetched", fetched)
		doc.field("failed", w.failed)
		doc.field("seconds", took.Seconds())
		err = doc.close()
	} else {
		_, err = fmt.Fprintf(out, "%s with %s, %d of them there already; %s fetched in %v", many(w.all.files, "file"),
			human(w.all.bytes), w.already, human(fetched), took.Round(time.Millisecond))
		if w.failed > 0 && err == nil {
			_, err = fmt.Fprintf(out, "; %d failed", w.failed)
		}
		if err == nil {
			_, err = fmt.Fprintln(out)
		}
	}
	if err == nil && w.failed > 0 {
		return errDamage
	}
	return err
}
