package sequence

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/codec/page"
)

// A Tree is one version of a tree. Trees are compared with ==.
type Tree interface {
	Lookup(ctx context.Context, path string) (page.Entry, error)
	List(ctx context.Context, dir, after string) iter.Seq2[page.Entry, error]
	Number(e *page.Entry) uint64 // inode number in a listing
}

// An order is an order of the entries of a directory.
type order int

const (
	byName   order = iota // that of a listing
	byNumber              // that of inode numbers
)

const (
	// maxSorted is how many names a walk holds, and so the largest directory that is walked by
	// number. fts sorts as many at once.
	maxSorted = 100_000

	// maxEmpty is how many directories without a file may follow each other in a walk.
	maxEmpty = 256
)

// A walk returns the files after a path: of its directory or, if deep, of a depth-first walk of
// the tree. Empty files are left out, because the kernel reads none.
type walk struct {
	tree   Tree
	order  order
	deep   bool
	path   string                       // of the last file
	sorted *lru.Cache[string, []string] // directory → names by number
}

func newWalk(t Tree, o order, path string) *walk {
	return &walk{tree: t, order: o, path: path, sorted: lru.New[string, []string](maxSorted, nil)}
}

// next returns the next n files, or fewer at the end. A panic of the tree is an error: the
// goroutines of a Detector must not end the process.
func (w *walk) next(ctx context.Context, n int) (files []page.Entry, err error) {
	defer flight.Guard(&err)
	dir, name := split(w.path)
	for empty := 0; empty < maxEmpty; empty++ {
		before, sub := len(files), ""
		for e, err := range w.children(ctx, dir, name) {
			if err != nil {
				return files, err
			}
			if e.Type == page.Dir && w.deep {
				sub = e.Path
				break
			}
			if e.Type == page.File && e.Size > 0 {
				files, w.path = append(files, e), e.Path
			}
			if len(files) == n {
				return files, nil
			}
		}
		if len(files) > before {
			empty = 0
		}
		switch {
		case sub != "":
			dir, name = sub, ""
		case !w.deep || dir == "":
			return files, nil
		default:
			dir, name = split(dir)
		}
	}
	return files, nil
}

// follows reports whether path is the next file of the walk. The walk does not move.
func (w walk) follows(ctx context.Context, paths ...string) bool {
	files, err := w.next(ctx, len(paths))
	return err == nil && slices.EqualFunc(files, paths, func(e page.Entry, path string) bool { return e.Path == path })
}

// children yields the entries of a directory after a name, in the order of w.
func (w *walk) children(ctx context.Context, dir, after string) iter.Seq2[page.Entry, error] {
	if w.order == byName {
		return w.tree.List(ctx, dir, after)
	}
	return func(yield func(page.Entry, error) bool) {
		names, err := w.sort(ctx, dir)
		if err != nil {
			yield(page.Entry{}, err)
			return
		}
		for _, name := range names[slices.Index(names, after)+1:] {
			if e, err := w.tree.Lookup(ctx, join(dir, name)); !yield(e, err) {
				return
			}
		}
	}
}

var errTooLarge = errors.New("directory is too large to be sorted")

// sort returns the names of a directory by number.
func (w *walk) sort(ctx context.Context, dir string) ([]string, error) {
	if names, ok := w.sorted.Get(dir); ok {
		return names, nil
	}
	type numbered struct {
		number uint64
		name   string
	}
	var all []numbered
	for e, err := range w.tree.List(ctx, dir, "") {
		if err != nil {
			return nil, err
		}
		if len(all) == maxSorted {
			return nil, errTooLarge
		}
		_, name := split(e.Path)
		all = append(all, numbered{w.tree.Number(&e), name})
	}
	slices.SortFunc(all, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].name
	}
	return w.sorted.Add(dir, names, int64(len(names))), nil
}

// split returns the directory and the name of a path.
func split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(0, i)], path[i+1:]
}

// join is the inverse of split.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
