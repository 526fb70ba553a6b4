package writer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// hiddenVersions is the name by which a mount shows older versions in the root.
const hiddenVersions = ".versions"

// checkEntry checks an entry by itself.
func checkEntry(e *page.Entry) error {
	if err := e.Check(); err != nil {
		return err
	}
	if e.Path == hiddenVersions {
		return fmt.Errorf("entry %q: the name is taken: older versions are shown there", e.Path)
	}
	return nil
}

// checkOrder checks where an entry stands among those before it. What else may be wrong
// with it is for the builder of the tree to say, which costs enough to be done once.
func checkOrder(e *page.Entry, dirs *directories) error {
	err := dirs.add(e)
	if err == nil && e.Path != hiddenVersions {
		return nil
	}
	return cmp.Or(checkEntry(e), err)
}

// parentOf returns the path of the directory that an entry is in. The root has none.
func parentOf(path string) string {
	return path[:max(0, strings.LastIndexByte(path, '/'))]
}

// checked passes on the entries of a whole tree, which come in the order of their keys,
// and ends with an error at the first that does not belong there. What they refer to is
// noted as reused.
func (s *Session) checked(ctx context.Context, entries iter.Seq2[page.Entry, error]) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		var dirs directories
		var last codec.Hash
		for e, err := range entries {
			if err == nil {
				err = checkOrder(&e, &dirs)
			}
			if h := e.ID.Shard; err == nil && h != last && !h.IsZero() {
				err, last = s.reuse.checkShard(ctx, h), h
			}
			if err != nil {
				yield(page.Entry{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		if !dirs.root {
			yield(page.Entry{}, errNoRoot)
		}
	}
}

var errNoRoot = errors.New("the tree has no entry for its root")

// directories sees to it that entries have a directory to be in. The directories of a
// tree come, in the order of keys, as in a walk; what is in one comes together; and all
// of it before what is in the first directory in it. So what is still to come is a
// stack, with one path for each directory.
type directories struct {
	root  bool
	open  string   // whose entries are coming
	in    []string // directories in it so far, in order
	stack []string // directories whose entries come later, the next one last
}

func (d *directories) add(e *page.Entry) error {
	if e.Path == "" {
		d.root = true
		return nil
	}
	if !d.root {
		return errNoRoot
	}
	if parent := parentOf(e.Path); parent != d.open {
		if !d.enter(parent) {
			return fmt.Errorf("entry %.80q: there is no directory for it, or it is not in order", e.Path)
		}
	}
	if e.Type == page.Dir {
		d.in = append(d.in, e.Path)
	}
	return nil
}

// enter goes on to the directory dir. Those before it are empty.
func (d *directories) enter(dir string) bool {
	for i := len(d.in) - 1; i >= 0; i-- {
		d.stack = append(d.stack, d.in[i])
	}
	d.in = d.in[:0]
	for n := len(d.stack); n > 0; n = len(d.stack) {
		next := d.stack[n-1]
		d.stack = d.stack[:n-1]
		if next == dir {
			d.open = dir
			return true
		}
	}
	return false
}
