package hubimport

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/xetfs/xetfs/codec/page"
)

// leftOutLabel is the label of a version that lacks entries of the Hub. It has their number and the reason of
// the first one:
//
//	14: path "a//b": a name is empty
const leftOutLabel = "hub_left_out"

// labeledEntries returns the function entries, which adds leftOutLabel to labels if entries are left out.
func (l *listing) labeledEntries(labels map[string]string) func(old iter.Seq2[page.Entry, error]) iter.Seq2[page.Entry, error] {
	return func(old iter.Seq2[page.Entry, error]) iter.Seq2[page.Entry, error] {
		return func(yield func(page.Entry, error) bool) {
			l.entries(old)(yield)
			if l.rejected > 0 {
				labels[leftOutLabel] = fmt.Sprintf("%d: %v", l.rejected, l.example)
			}
		}
	}
}

// logLeftOut logs which entries the newest version lacks. Each start logs it: the result of a command would look
// complete.
func (im *Importer) logLeftOut(ctx context.Context) {
	v, err := im.newestOf(ctx, im.symbol)
	if err != nil || v == nil {
		return // the reader gets the error
	}
	count, first, _ := strings.Cut(v.Labels[leftOutLabel], ": ")
	if n, err := strconv.Atoi(count); err == nil {
		im.o.Logger.Warn("entries with names that a mount cannot have are left out", "event", "name_rejected",
			"symbol", im.symbol, "commit", labelOf(v), "count", n, "first", first)
	}
}
