package hubserve

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/xetfs/xetfs/cache/origin/hub"
)

// A History lists the commits of a repository. Repos may implement it.
type History interface {
	// Commits returns up to limit commits, newest first, and the cursor of the next page; "": no
	// more commits. The first page begins with the commit c. total is the number of commits from c on.
	Commits(ctx context.Context, id hub.RepoID, c Commit, cursor string, limit int) (commits []CommitInfo, next string, total int, err error)
}

// A CommitInfo is a commit of a list.
type CommitInfo struct {
	ID, Title, Message string // Message has no title
	Author             string // "": unknown
	Time               time.Time
}

// A wireCommit is a CommitInfo in an answer.
type wireCommit struct {
	ID      string       `json:"id"`
	Title   string       `json:"title"`
	Message string       `json:"message"`
	Authors []wireAuthor `json:"authors"`
	Date    string       `json:"date"`
}

type wireAuthor struct {
	User   string `json:"user"`
	Avatar string `json:"avatar"`
}

// Bounds of a page of commits.
const (
	defaultCommits = 50
	maxCommits     = 1000
)

// serveCommits sends one page of commits. The header Link has the address of the next page.
func (h *handler) serveCommits(w http.ResponseWriter, r *http.Request, rt route, c Commit) error {
	history, ok := h.o.Repos.(History)
	if !ok {
		return errNoRoute
	}
	query := r.URL.Query()
	limit := defaultCommits
	if s := query.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return badRequest("the limit must be a positive number")
		}
		limit = min(n, maxCommits)
	}
	commits, next, total, err := history.Commits(r.Context(), rt.repo, c, query.Get("cursor"), limit)
	if err != nil {
		return err
	}
	list := make([]wireCommit, 0, len(commits))
	for _, ci := range commits {
		authors := []wireAuthor{}
		if ci.Author != "" {
			authors = append(authors, wireAuthor{User: ci.Author})
		}
		list = append(list, wireCommit{ci.ID, ci.Title, ci.Message, authors, wireTime(ci.Time)})
	}
	w.Header().Set("X-Total-Count", strconv.Itoa(total))
	if next != "" {
		w.Header().Set("Link", nextPage(r, next))
	}
	return SendJSON(w, r, http.StatusOK, list)
}
