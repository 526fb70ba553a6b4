package tree

import (
	"errors"
	"fmt"
	"strings"

	"github.com/xetfs/xetfs/codec/page"
)

// Parent returns the path of the directory of an entry; "" for the root.
func Parent(path string) string {
	return path[:max(0, strings.LastIndexByte(path, '/'))]
}

// ErrNoRoot reports that a tree has no entry for its root.
var ErrNoRoot = errors.New("the tree has no entry for its root")

// An Order checks that each entry has a directory.
//
// The entries of a tree are in the order of keys. The entries of one directory are
// contiguous, and they precede the entries of its first subdirectory. The directories that
// follow are therefore a stack with one path each.
type Order struct {
	root  bool
	open  string   // the directory whose entries follow
	in    []string // its subdirectories so far, in order
	stack []string // directories whose entries follow later, the next one last
}

// HasRoot reports whether the root was added.
func (o *Order) HasRoot() bool { return o.root }

// Add checks the next entry.
func (o *Order) Add(e *page.Entry) error {
	if e.Path == "" {
		o.root = true
		return nil
	}
	if !o.root {
		return ErrNoRoot
	}
	if parent := Parent(e.Path); parent != o.open {
		if !o.enter(parent) {
			return fmt.Errorf("entry %.80q: it has no directory, or is not in order", e.Path)
		}
	}
	if e.Type == page.Dir {
		o.in = append(o.in, e.Path)
	}
	return nil
}

// enter continues with the directory dir. Those before it are empty.
func (o *Order) enter(dir string) bool {
	for i := len(o.in) - 1; i >= 0; i-- {
		o.stack = append(o.stack, o.in[i])
	}
	o.in = o.in[:0]
	for n := len(o.stack); n > 0; n = len(o.stack) {
		next := o.stack[n-1]
		o.stack = o.stack[:n-1]
		if next == dir {
			o.open = dir
			return true
		}
	}
	return false
}
