package hubserve

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/cache/origin/hub"
)

// serveInfo sends the facts about a commit and the names of all files. Clients that poll send the
// ETag, which is the commit, and get 304 without a body. The names are sent while the tree is
// read, so that large trees need no memory.
func (h *handler) serveInfo(w http.ResponseWriter, r *http.Request, rt route, c Commit) error {
	query := r.URL.Query()
	wanted := slices.Concat(query["expand"], query["expand[]"])
	etag := `"` + c.ID() + `"`
	w.Header().Set("ETag", etag)
	w.Header().Set("Cache-Control", "no-cache")
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	info := h.info(rt.repo, c)
	if len(wanted) > 0 && !slices.Contains(wanted, "siblings") {
		return SendJSON(w, r, http.StatusOK, info)
	}
	b, err := json.Marshal(info)
	if err != nil {
		return fmt.Errorf("encode the answer: %v", err)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.Method == http.MethodHead {
		return nil // the length is that of all names
	}
	out := &abortWriter{w: w}
	out.write(b[:len(b)-1], []byte(`,"siblings":[`))
	var left LeftOutError
	if err := writeSiblings(out, r, c, isTrue(query.Get("blobs")), &left); err != nil {
		h.report(r, err)
		out.abort()
	}
	h.reportLeftOut(r, c, &left)
	out.write([]byte("]}"))
	return nil
}

// info returns the facts about a commit.
func (h *handler) info(id hub.RepoID, c Commit) repoInfo {
	author, _, ok := strings.Cut(id.Name, "/")
	if !ok {
		author = ""
	}
	info := repoInfo{
		MongoID: c.ID()[:24], ID: id.Name, Author: author, SHA: c.ID(), LastModified: wireTime(c.Time()), CreatedAt: wireTime(c.Time()),
		Private: h.o.Private, Tags: []string{},
	}
	if id.Type == hub.Model {
		info.ModelID = id.Name
	}
	return info
}

// writeSiblings writes the files of a commit as JSON.
func writeSiblings(out *abortWriter, r *http.Request, c Commit, blobs bool, left *LeftOutError) error {
	first := true
	for f, err := range below(r.Context(), c, "", "") {
		if err != nil {
			return err
		}
		if f.IsDir || left.has(f.Path) {
			continue
		}
		b, err := json.Marshal(f.sibling(c, blobs))
		if err != nil {
			return fmt.Errorf("encode the answer: %v", err)
		}
		if !first {
			out.write([]byte{','})
		}
		first = false
		out.write(b)
	}
	return nil
}

// An abortWriter writes an answer whose status was sent. An error ends the connection, so that
// no client takes a part for the whole.
type abortWriter struct{ w io.Writer }

func (a *abortWriter) write(parts ...[]byte) {
	for _, b := range parts {
		if _, err := a.w.Write(b); err != nil {
			a.abort()
		}
	}
}

func (*abortWriter) abort() { panic(http.ErrAbortHandler) }

// serveRefs sends the branches and tags of a repository.
func (h *handler) serveRefs(w http.ResponseWriter, r *http.Request, rt route) error {
	branches, tags, err := h.o.Repos.Refs(r.Context(), rt.repo)
	if err != nil {
		return err
	}
	return SendJSON(w, r, http.StatusOK, refsInfo{
		Branches: wireRefs(branches, "refs/heads/"), Tags: wireRefs(tags, "refs/tags/"),
		Converts: []refInfo{}, PullRequests: []refInfo{},
	})
}

func wireRefs(refs []Ref, prefix string) []refInfo {
	list := make([]refInfo, 0, len(refs))
	for _, ref := range refs {
		list = append(list, refInfo{Name: ref.Name, Ref: prefix + ref.Name, TargetCommit: ref.Commit})
	}
	return list
}

// isTrue reads a boolean of a query or form: Python writes True, others true or 1.
func isTrue(s string) bool { return s == "1" || strings.EqualFold(s, "true") }
