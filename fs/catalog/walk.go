package catalog

import (
	"context"
	"iter"

	"github.com/xetfs/xetfs/codec/page"
)

// Walk yields the entries below dir depth first: the entries of a directory follow the
// directory. An error belongs to a directory that cannot be listed, and the entry has its
// path. A caller that continues then receives the entries behind that directory.
func Walk(ctx context.Context, t Tree, dir string) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) { walk(ctx, t, dir, yield) }
}

// walk is Walk. It returns false if the caller stopped.
func walk(ctx context.Context, t Tree, dir string, yield func(page.Entry, error) bool) bool {
	for e, err := range t.List(ctx, dir, "") {
		if err != nil {
			return yield(page.Entry{Path: dir, Type: page.Dir}, err)
		}
		if !yield(e, nil) {
			return false
		}
		if e.Type == page.Dir && !walk(ctx, t, e.Path, yield) {
			return false
		}
	}
	return true
}
