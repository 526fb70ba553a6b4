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

// hiddenVersions is the name in the root under which a mount shows older versions.
const hiddenVersions = ".versions"

// checkEntry checks one entry alone.
func checkEntry(e *page.Entry) error {
	if err := e.Check(); err != nil {
		return err
	}
	if e.Path == hiddenVersions {
		return fmt.Errorf("entry %q: the name is taken: older versions are shown there", e.Path)
	}
	return nil
}

// checkOrder checks the position of an entry among the entries before it. The builder of
// the tree checks the entry alone, which is expensive enough to do once.
func checkOrder(e *page.Entry, dirs *directories) error {
	err := dirs.add(e)
	if err == nil && e.Path != hiddenVersions {
		return nil
	}
	return cmp.Or(checkEntry(e), err)
}

// parentOf returns the path of the directory of an entry; "" for the root.
func parentOf(path string) string {
	return path[:max(0, strings.LastIndexByte(path, '/'))]
}

// checked yields the entries of a whole tree, which are in the order of their keys. It
// ends with an error at the first invalid entry. It records the shards of the entries as
// reused.
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

// directories checks that each entry has a directory.
//
// The entries of a tree are in the order of keys. The entries of one directory are
// contiguous, and they precede the entries of its first subdirectory. The directories that
// follow are therefore a stack with one path each.
type directories struct {
	root  bool
	open  string   // the directory whose entries follow
	in    []string // its subdirectories so far, in order
	stack []string // directories whose entries follow later, the next one last
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
			return fmt.Errorf("entry %.80q: it has no directory, or is not in order", e.Path)
		}
	}
	if e.Type == page.Dir {
		d.in = append(d.in, e.Path)
	}
	return nil
}

// enter continues with the directory dir. Those before it are empty.
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
