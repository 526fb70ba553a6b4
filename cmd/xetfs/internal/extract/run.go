package extract

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/reconstruct"
)

// Options are the tree and the folder of one run.
type Options struct {
	Tree   catalog.Tree
	Reader *reconstruct.Reader
	Paths  []string // files, links and folders of the tree; "" is all of it
	Folder string   // the target, which must exist
	Owners bool     // set the recorded owners, which needs root
	Bar    *ui.Progress
	Failed func(path string, err error) // reports one damaged or missing entry; called by one goroutine at a time
}

// A Result counts the entries of a run.
type Result struct {
	Folders, Files, Links int64
	Bytes                 int64 // of all files
	Already               int64 // files that were complete before
	Written               int64 // bytes of the other files
	Failed                int64 // entries that are damaged or missing
	Bits                  int64 // files without their set-user or set-group bits
	Attributes            int64 // entries without their extended attributes
}

// Small files wait for the origin or the disk most of the time. Large files are fetched in
// parallel pieces, which takes memory.
const (
	smallWorkers = 16
	largeWorkers = 4
	leastLarge   = 8 << 20 // bytes of a large file
)

// A run copies one selection of a tree.
type run struct {
	Options
	stop         context.CancelCauseFunc
	small, large chan job

	mu     sync.Mutex
	result Result // guarded by mu
}

// A job is one file to write.
type job struct {
	in *folder // with one user for the job
	e  page.Entry
}

// Run copies the selected paths and returns the counts. An error ends the run early; a damaged
// entry is reported and is no error. The files that are complete then have their names, and no
// other file has. All files are durable when Run returns without an error.
func Run(ctx context.Context, o Options) (Result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := &run{Options: o, stop: stop}
	top, err := openTop(o.Folder)
	if err != nil {
		return Result{}, err
	}
	top.run = r
	err = r.copyAll(ctx, top)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result, cmp.Or(context.Cause(ctx), err)
}

// copyAll starts the workers and walks over the selected paths. It releases top.
func (r *run) copyAll(ctx context.Context, top *folder) error {
	var workers sync.WaitGroup
	begin := func(count int) chan job {
		jobs := make(chan job, count)
		for range count {
			workers.Go(func() {
				for j := range jobs {
					r.copyFile(ctx, j)
				}
			})
		}
		return jobs
	}
	r.small, r.large = begin(smallWorkers), begin(largeWorkers)
	q := newQueue(ctx, r)
	var err error
	for _, p := range r.Paths {
		if err = r.copyPath(ctx, q, top, p); err != nil {
			r.stop(err)
			break
		}
	}
	q.close()
	close(r.small)
	close(r.large)
	workers.Wait()
	defer top.release()
	if err != nil || ctx.Err() != nil {
		return err
	}
	if err := retry(func() error { return unix.Syncfs(top.fd()) }); err != nil {
		return r.named("", err)
	}
	return nil
}

// copyPath copies one selected path. The folders above it are made, with their modes and times.
func (r *run) copyPath(ctx context.Context, q *queue, top *folder, path string) error {
	e, err := r.Tree.Lookup(ctx, path)
	if err != nil {
		return err
	}
	if path == "" {
		top.setEntry(e)
		return r.copyFolder(ctx, q, top)
	}
	in := top.hold()
	defer func() { in.release() }()
	names := strings.Split(path, "/")
	for i := range names[:len(names)-1] {
		above, err := r.Tree.Lookup(ctx, strings.Join(names[:i+1], "/"))
		if err != nil {
			return err
		}
		next, err := in.open(above)
		if err != nil {
			return r.named(above.Path, err)
		}
		in.release()
		in = next
	}
	return r.copyEntry(ctx, q, in, e)
}

// copyEntry copies an entry of a folder. A file is queued.
func (r *run) copyEntry(ctx context.Context, q *queue, in *folder, e page.Entry) error {
	if err := checkName(e.Path); err != nil {
		return r.fail(ctx, e.Path, err)
	}
	switch e.Type {
	case page.Dir:
		sub, err := in.open(e)
		if err != nil {
			return r.named(e.Path, err)
		}
		defer sub.release()
		r.count(func(c *Result) { c.Folders++ })
		return r.copyFolder(ctx, q, sub)
	case page.Symlink:
		if err := in.link(e); err != nil {
			return r.named(e.Path, err)
		}
		r.count(func(c *Result) { c.Links++ })
		return nil
	}
	r.count(func(c *Result) { c.Files, c.Bytes = c.Files+1, c.Bytes+e.Size })
	return q.add(job{in.hold(), e})
}

// copyFolder copies everything below a folder.
func (r *run) copyFolder(ctx context.Context, q *queue, in *folder) error {
	for e, err := range r.Tree.List(ctx, in.entry.Path, "") {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return r.fail(ctx, cmp.Or(in.entry.Path, "."), err)
		}
		if err := r.copyEntry(ctx, q, in, e); err != nil {
			return err
		}
	}
	return nil
}

// checkName refuses a path that leads out of the target, and a name of partial files. Index
// pages cannot hold the former; the check does not rely on that.
func checkName(path string) error {
	switch {
	case !filepath.IsLocal(path) || strings.Contains(path, "\x00"):
		return codec.Corrupt("entry", 0, "its path leads out of the tree")
	case strings.HasPrefix(baseName(path), partPrefix):
		return codec.Corrupt("entry", 0, "its name is that of a partial file of xetfs get")
	}
	return nil
}

func baseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// copyFile copies one file and ends its job.
func (r *run) copyFile(ctx context.Context, j job) {
	defer j.in.release()
	var done int64
	read := func(n int64) {
		done += n
		r.Bar.Add(n)
	}
	err := ctx.Err()
	if err == nil {
		err = r.write(ctx, j, read)
	}
	r.Bar.Add(j.e.Size - done)
	if err := r.fail(ctx, j.e.Path, err); err != nil {
		r.stop(err)
	}
}

// fail handles an error about one entry. It returns an error if no other entry can be copied
// either.
func (r *run) fail(ctx context.Context, path string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case origin.ConcernsOneObject(err):
		r.mu.Lock()
		defer r.mu.Unlock()
		r.result.Failed++
		r.Failed(path, err)
		return nil
	}
	return r.named(path, err)
}

// named returns an error with the path of its entry. An error of the target is that of a local
// file system.
func (r *run) named(path string, err error) error {
	var no syscall.Errno
	if errors.As(err, &no) && !errors.As(err, new(*origin.LocalError)) {
		return &origin.LocalError{Path: filepath.Join(r.Folder, path), Err: no}
	}
	return fmt.Errorf("%s: %w", path, err)
}

// count changes the result.
func (r *run) count(change func(*Result)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.result)
}
