package hubserve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of one answer.
const (
	maxEntries   = 1000    // of one page of a tree
	maxPaths     = 9000    // of one request for paths-info; package net/url refuses forms with more than 10,000 values
	maxPathsBody = 1 << 20 // bytes
)

// serveTree sends one page of a folder. The header Link has the address of the next page, whose
// cursor is the last path of this page.
func (h *handler) serveTree(w http.ResponseWriter, r *http.Request, rt route, c Commit) error {
	query := r.URL.Query()
	limit, after, err := pageOf(query, rt.path)
	if err != nil {
		return err
	}
	switch dir, err := c.Lookup(r.Context(), rt.path); {
	case err != nil:
		return err
	case !dir.IsDir:
		return iofs.ErrNotExist
	}
	walk := c.List(r.Context(), rt.path, after)
	if isTrue(query.Get("recursive")) {
		walk = below(r.Context(), c, rt.path, after)
	}
	var left LeftOutError
	defer func() { h.reportLeftOut(r, c, &left) }()
	entries := []treeEntry{}
	for f, err := range walk {
		switch {
		case err != nil:
			return err
		case left.has(f.Path):
			continue
		case len(entries) == limit:
			w.Header().Set("Link", nextPage(r, entries[limit-1].Path))
			return SendJSON(w, r, http.StatusOK, entries)
		}
		entries = append(entries, f.entry(c, isTrue(query.Get("expand")), h.o.Tokens != nil))
	}
	return SendJSON(w, r, http.StatusOK, entries)
}

// A LeftOutError reports entries that an answer leaves out. JSON has no form for names that are not UTF-8.
type LeftOutError struct {
	Count int
	First string // path of one
}

// Error implements error.
func (e *LeftOutError) Error() string {
	return fmt.Sprintf("%d entries with names that are not UTF-8, first %q", e.Count, e.First)
}

// has reports whether an entry is left out, and counts it.
func (e *LeftOutError) has(path string) bool {
	if utf8.ValidString(path) {
		return false
	}
	if e.Count++; e.Count == 1 {
		e.First = path
	}
	return true
}

// maxLeftOut bounds the commits whose LeftOutError is reported once only.
const maxLeftOut = 1000

// reportLeftOut reports the entries that an answer has left out, once for each commit.
func (h *handler) reportLeftOut(r *http.Request, c Commit, left *LeftOutError) {
	if left.Count == 0 {
		return
	}
	h.mu.Lock()
	_, again := h.leftOut.Get(c.ID())
	h.leftOut.Add(c.ID(), struct{}{}, 1)
	h.mu.Unlock()
	if !again {
		h.report(r, left)
	}
}

// pageOf returns the number of entries of a page, and the name or path behind which it begins.
func pageOf(query url.Values, dir string) (limit int, after string, err error) {
	limit = maxEntries
	if s := query.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return 0, "", badRequest("the limit must be a positive number")
		}
		limit = min(n, maxEntries)
	}
	cursor := query.Get("cursor")
	if cursor == "" {
		return limit, "", nil
	}
	after, ok := strings.CutPrefix("/"+cursor, strings.TrimSuffix("/"+dir, "/")+"/")
	if !ok || after == "" || !isPath(cursor) {
		return 0, "", badRequest("the cursor is not one of this listing")
	}
	return limit, after, nil
}

// nextPage returns the header Link of a page that ends with a path.
func nextPage(r *http.Request, last string) string {
	query := r.URL.Query()
	query.Set("cursor", last)
	return "<" + Base(r) + r.URL.EscapedPath() + "?" + query.Encode() + `>; rel="next"`
}

// below yields the entries of dir and all folders in it, a folder before its content. It begins
// behind a path relative to dir; "" yields all.
func below(ctx context.Context, c Commit, dir, after string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) { yieldBelow(ctx, c, dir, after, yield) }
}

// yieldBelow is below. It returns false if the caller stopped.
func yieldBelow(ctx context.Context, c Commit, dir, after string, yield func(File, error) bool) bool {
	first, rest, _ := strings.Cut(after, "/")
	if first != "" {
		sub := path.Join(dir, first)
		switch f, err := c.Lookup(ctx, sub); {
		case errors.Is(err, iofs.ErrNotExist): // the cursor of another tree
		case err != nil:
			return yield(File{}, err)
		case f.IsDir && !yieldBelow(ctx, c, sub, rest, yield):
			return false
		}
	}
	for f, err := range c.List(ctx, dir, first) {
		if !yield(f, err) || err != nil {
			return false
		}
		if f.IsDir && !yieldBelow(ctx, c, f.Path, "", yield) {
			return false
		}
	}
	return true
}

// servePaths sends the entries of the paths in the body of a request. Absent paths are left out.
func (h *handler) servePaths(w http.ResponseWriter, r *http.Request, c Commit) error {
	paths, expand, err := readPaths(w, r)
	if err != nil {
		return err
	}
	entries := []treeEntry{}
	for _, p := range paths {
		p = strings.Trim(p, "/")
		if p == "" || !isPath(p) {
			continue
		}
		switch f, err := c.Lookup(r.Context(), p); {
		case errors.Is(err, iofs.ErrNotExist):
		case err != nil:
			return err
		default:
			entries = append(entries, f.entry(c, expand, h.o.Tokens != nil))
		}
	}
	return SendJSON(w, r, http.StatusOK, entries)
}

// readPaths returns the paths in the body of a request. Clients in Python send a form, and those
// in JavaScript send JSON.
func readPaths(w http.ResponseWriter, r *http.Request) (paths []string, expand bool, err error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxPathsBody)
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "application/json" {
		var body struct {
			Paths  []string `json:"paths"`
			Expand bool     `json:"expand"`
		}
		err = json.NewDecoder(r.Body).Decode(&body)
		paths, expand = body.Paths, body.Expand
	} else if err = r.ParseForm(); err == nil {
		paths, expand = r.PostForm["paths"], isTrue(r.PostForm.Get("expand"))
	}
	if err != nil || len(paths) > maxPaths {
		return nil, false, badRequest(fmt.Sprintf("the body must be JSON or a form, with at most %d paths and 1 MiB", maxPaths))
	}
	return paths, expand, nil
}
