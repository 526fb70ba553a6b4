package serve

import (
	"context"
	"strconv"

	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
)

var _ hubserve.History = (*Repos)(nil)

// Commits implements hubserve.History. The cursor is the number of the version behind the page.
func (r *Repos) Commits(ctx context.Context, id hub.RepoID, c hubserve.Commit, cursor string, limit int) (list []hubserve.CommitInfo, next string, total int, err error) {
	first, ok := c.(*commit)
	if !ok {
		return nil, "", 0, hub.ErrRevisionNotFound
	}
	from := first.row.Number
	if cursor != "" {
		if from, err = strconv.ParseUint(cursor, 10, 64); err != nil {
			return nil, "", 0, hub.ErrRevisionNotFound
		}
	}
	symbol, l, err := r.readableSymbol(ctx, id)
	if err != nil {
		return nil, "", 0, err
	}
	for v, err := range r.lineages.versions(ctx, symbol, &l) {
		if err != nil {
			return nil, "", 0, err
		}
		if v.row.Number <= first.row.Number {
			total++
		}
		switch {
		case v.row.Number > from:
		case len(list) < limit:
			list = append(list, hubserve.CommitInfo{ID: v.id, Title: v.title, Message: v.message, Author: v.author, Time: v.row.Time})
		case next == "":
			next = strconv.FormatUint(v.row.Number, 10)
		}
	}
	return list, next, total, nil
}
