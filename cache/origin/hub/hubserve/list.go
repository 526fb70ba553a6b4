package hubserve

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/xetfs/xetfs/cache/origin/hub"
)

// A Lister lists repositories. Repos may implement it.
type Lister interface {
	// Names returns the sorted names of a type's repositories that the client may read. Some may have
	// no commit.
	Names(ctx context.Context, t hub.RepoType) ([]string, error)
}

// maxRepos bounds a page of repositories. Each one is resolved.
const maxRepos = 100

// listType returns the type whose repositories a path lists.
func listType(escaped string) (hub.RepoType, bool) {
	t, ok := typeFolders[strings.TrimPrefix(escaped, "/api/")]
	return t, ok && strings.HasPrefix(escaped, "/api/")
}

// serveList sends one page of the repositories of a type. Their names contain the text of search, in any
// case, and have the owner author. No repository has the tag that a filter requires. The header Link has the
// address of the next page.
func (h *handler) serveList(w http.ResponseWriter, r *http.Request, t hub.RepoType) error {
	l, ok := h.o.Repos.(Lister)
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return errNoRoute
	}
	query := r.URL.Query()
	limit, after, err := pageOf(query, "")
	if err != nil {
		return err
	}
	limit = min(limit, maxRepos)
	names, err := l.Names(r.Context(), t)
	if err != nil {
		return err
	}
	author, search, filter := query.Get("author"), strings.ToLower(query.Get("search")), query.Get("filter")
	list := []repoInfo{}
	for _, name := range names {
		owner, _, hasOwner := strings.Cut(name, "/")
		switch {
		case name <= after, filter != "", author != "" && (!hasOwner || owner != author), !strings.Contains(strings.ToLower(name), search):
			continue
		case len(list) == limit:
			w.Header().Set("Link", nextPage(r, list[limit-1].ID))
			return SendJSON(w, r, http.StatusOK, list)
		}
		id := hub.RepoID{Type: t, Name: name}
		switch c, err := h.o.Repos.Resolve(r.Context(), id, ""); {
		case err == nil:
			list = append(list, h.info(id, c))
		case errors.Is(err, hub.ErrRepoNotFound): // deleted, or not published yet
		case refusalOf(err).Status == http.StatusServiceUnavailable:
			return err
		default: // damaged
			h.report(r, err)
		}
	}
	return SendJSON(w, r, http.StatusOK, list)
}
