package hubtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Server is a Hub. Its fields may change between requests, with Lock held.
type Server struct {
	URL string // the endpoint
	CDN string // the content server

	sync.Mutex
	Token      string                                        // requests need it; "": none
	Codes      map[string]int                                // status of requests whose path has a part, for example "/tree/"
	ErrorCodes map[string]string                             // X-Error-Code of the same
	Renamed    map[string]string                             // kind/owner/name → the new one
	PageSize   int                                           // of listings; 0: that of the request
	Repeat     bool                                          // the second page of a listing names itself as the next
	Elsewhere  string                                        // host of the next page; "": this one
	Damage     func(path string, content []byte) []byte      // changes content; nil: no change
	NoRanges   bool                                          // the content server ignores ranges
	Signature  string                                        // of addresses of the content server, which refuses others
	Quota      map[string]int                                // requests in a window: "api", "resolvers"; 0: any number
	Now        func() time.Time                              // nil: time.Now
	CAS        string                                        // address of the CAS
	CASToken   func() (string, int64)                        // token and expiry; nil: "cas", in an hour
	Delay      time.Duration                                 // of each page of a whole listing
	Answer     func(http.ResponseWriter, *http.Request) bool // answers a request itself; nil: none

	requests []string
	repos    map[string]*repo
	used     map[string]int
	window   time.Time
	commits  int
	refused  int      // requests beyond a quota
	leaked   []string // requests to the content server with a token
}

// A repo has commits by revision: branches, tags and ids of commits.
type repo struct{ revisions map[string]*commit }

// Window is the time in which a server counts requests.
const Window = 5 * time.Minute

// New returns a running server.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{repos: map[string]*repo{}, used: map[string]int{}}
	hub, cdn := httptest.NewServer(http.HandlerFunc(s.serve)), httptest.NewServer(http.HandlerFunc(s.content))
	s.URL, s.CDN = hub.URL, cdn.URL
	t.Cleanup(hub.Close)
	t.Cleanup(cdn.Close)
	return s
}

// Commit makes files the newest commit of a branch of a repository, for example "model/org/x". It
// returns the id of the commit.
func (s *Server) Commit(name, branch string, files ...File) string {
	s.Lock()
	defer s.Unlock()
	r := s.repos[name]
	if r == nil {
		r = &repo{map[string]*commit{}}
		s.repos[name] = r
	}
	s.commits++
	c := newCommit(files, s.commits, time.Date(2026, 3, 1, 12, 0, s.commits, 0, time.UTC))
	r.revisions[branch], r.revisions[c.id] = c, c
	return c.id
}

// Replace replaces the files of the commit of a branch, as a Hub does whose listing was wrong.
func (s *Server) Replace(name, branch string, files ...File) {
	s.Lock()
	defer s.Unlock()
	r := s.repos[name]
	old := r.revisions[branch]
	c := newCommit(files, s.commits, old.time)
	c.id = old.id
	r.revisions[branch], r.revisions[c.id] = c, c
}

// Delete removes a revision; "": the repository.
func (s *Server) Delete(name, revision string) {
	s.Lock()
	defer s.Unlock()
	if revision == "" {
		delete(s.repos, name)
		return
	}
	delete(s.repos[name].revisions, revision)
}

// Reset makes an earlier commit that of a branch.
func (s *Server) Reset(name, branch, id string) {
	s.Lock()
	defer s.Unlock()
	s.repos[name].revisions[branch] = s.repos[name].revisions[id]
}

// Requests returns the requests so far that contain a text: method, path and query.
func (s *Server) Requests(text string) (found []string) {
	s.Lock()
	defer s.Unlock()
	for _, r := range s.requests {
		if strings.Contains(r, text) {
			found = append(found, r)
		}
	}
	return found
}

// Leaked returns the requests with a token to the content server.
func (s *Server) Leaked() []string {
	s.Lock()
	defer s.Unlock()
	return slices.Clone(s.leaked)
}

// Refused returns the number of requests beyond a quota.
func (s *Server) Refused() int {
	s.Lock()
	defer s.Unlock()
	return s.refused
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.Lock()
	delay := s.Delay
	s.Unlock()
	if r.URL.Query().Get("recursive") == "true" {
		time.Sleep(delay)
	}
	s.Lock()
	s.requests = append(s.requests, r.Method+" "+r.RequestURI)
	answer := s.Answer
	s.Unlock()
	if answer != nil && answer(w, r) { // without the lock, because it may wait
		return
	}
	s.Lock()
	defer s.Unlock()
	if !s.allow(w, r) {
		return
	}
	for part, code := range s.Codes {
		if strings.Contains(r.URL.Path, part) {
			refuse(w, code, s.ErrorCodes[part])
			return
		}
	}
	if s.Token != "" && r.Header.Get("Authorization") != "Bearer "+s.Token {
		refuse(w, http.StatusUnauthorized, "")
		return
	}
	if !s.redirect(w, r) {
		s.route(w, r)
	}
}

// refuse answers as the Hub does.
func refuse(w http.ResponseWriter, code int, reason string) {
	if reason != "" {
		w.Header().Set("X-Error-Code", reason)
	}
	http.Error(w, `{"error":"refused"}`, code)
}

// allow counts a request. It reports whether it is within its quota.
func (s *Server) allow(w http.ResponseWriter, r *http.Request) bool {
	class := "resolvers"
	if strings.HasPrefix(r.URL.Path, "/api/") {
		class = "api"
	}
	quota := s.Quota[class]
	if quota == 0 {
		return true
	}
	now := time.Now()
	if s.Now != nil {
		now = s.Now()
	}
	if now.Sub(s.window) >= Window {
		s.window = now
		clear(s.used)
	}
	s.used[class]++
	left := int((Window - now.Sub(s.window) + time.Second - 1) / time.Second)
	w.Header().Set("RateLimit", fmt.Sprintf(`%q;r=%d;t=%d`, class, max(0, quota-s.used[class]), left))
	w.Header().Set("RateLimit-Policy", fmt.Sprintf(`"fixed window";%q;q=%d;w=300`, class, quota))
	if s.used[class] > quota {
		s.refused++
		refuse(w, http.StatusTooManyRequests, "")
		return false
	}
	return true
}

// redirect answers a request for a renamed repository.
func (s *Server) redirect(w http.ResponseWriter, r *http.Request) bool {
	for from, to := range s.Renamed {
		kind, oldID, _ := strings.Cut(from, "/")
		_, newID, _ := strings.Cut(to, "/")
		for _, prefix := range []string{"/api/" + kind + "s/", "/" + kind + "s/", "/"} {
			if rest, ok := strings.CutPrefix(r.RequestURI, prefix+oldID); ok {
				w.Header().Set("Location", prefix+newID+rest)
				w.WriteHeader(http.StatusTemporaryRedirect)
				return true
			}
		}
	}
	return false
}

// route answers a request for a repository.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	api := parts[0] == "api"
	if api {
		parts = parts[1:]
	}
	kind := "model"
	if len(parts) > 0 && slices.Contains([]string{"models", "datasets", "spaces", "buckets"}, parts[0]) {
		kind, parts = strings.TrimSuffix(parts[0], "s"), parts[1:]
	}
	for i := range parts {
		parts[i], _ = url.PathUnescape(parts[i])
	}
	if len(parts) < 2 || s.repos[kind+"/"+parts[0]+"/"+parts[1]] == nil {
		refuse(w, http.StatusNotFound, "RepoNotFound")
		return
	}
	id, action := parts[0]+"/"+parts[1], ""
	if len(parts) > 2 {
		action = parts[2]
	}
	rest := parts[min(3, len(parts)):]
	revision := "main"
	if kind != "bucket" && len(rest) > 0 {
		revision, rest = rest[0], rest[1:]
	}
	c := s.repos[kind+"/"+id].revisions[revision]
	switch {
	case c == nil:
		refuse(w, http.StatusNotFound, "RevisionNotFound")
	case api && action == "tree":
		s.list(w, r, c, strings.Join(rest, "/"))
	case api && action == "xet-read-token":
		s.casToken(w)
	case api:
		s.info(w, r, id, c)
	case action == "resolve":
		s.resolve(w, r, c, strings.Join(rest, "/"))
	default:
		refuse(w, http.StatusNotFound, "")
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// info describes a repository.
func (s *Server) info(w http.ResponseWriter, r *http.Request, id string, c *commit) {
	tag := `"` + c.id + `"`
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	writeJSON(w, map[string]any{"id": id, "sha": c.id, "lastModified": c.time, "updatedAt": c.time, "private": false})
}

// list writes a page of a listing.
func (s *Server) list(w http.ResponseWriter, r *http.Request, c *commit, dir string) {
	q := r.URL.Query()
	all := c.entries
	if recursive := q.Get("recursive") == "true"; dir != "" || !recursive {
		all = c.list(dir, recursive)
	}
	if dir != "" && all == nil {
		refuse(w, http.StatusNotFound, "EntryNotFound")
		return
	}
	size, _ := strconv.Atoi(q.Get("limit"))
	if s.PageSize > 0 {
		size = s.PageSize
	}
	start, _ := strconv.Atoi(q.Get("cursor"))
	end := min(start+size, len(all))
	if end < len(all) {
		next := strconv.Itoa(end)
		if s.Repeat && start > 0 {
			next = strconv.Itoa(start)
		}
		q.Set("cursor", next)
		host := s.URL
		if s.Elsewhere != "" {
			host = s.Elsewhere
		}
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?%s>; rel="next"`, host, r.URL.EscapedPath(), q.Encode()))
	}
	writeJSON(w, append([]json.RawMessage{}, all[start:end]...))
}

// casToken writes a token for the CAS.
func (s *Server) casToken(w http.ResponseWriter) {
	token, expiry := "cas", time.Now().Add(time.Hour).Unix()
	if s.CASToken != nil {
		token, expiry = s.CASToken()
	}
	writeJSON(w, map[string]any{"accessToken": token, "exp": expiry, "casUrl": s.CAS})
}

// resolve writes the content of a git blob. The content of other files is on the content server.
func (s *Server) resolve(w http.ResponseWriter, r *http.Request, c *commit, path string) {
	f := c.file(path)
	if f == nil {
		refuse(w, http.StatusNotFound, "EntryNotFound")
		return
	}
	w.Header().Set("X-Repo-Commit", c.id)
	if f.LFS || f.Xet != "" {
		w.Header().Set("Location", s.CDN+"/"+c.id+"/"+(&url.URL{Path: path}).EscapedPath()+"?X-Amz-Signature=secret"+s.Signature)
		w.WriteHeader(http.StatusFound)
		return
	}
	w.Header().Set("ETag", `"`+Git(f.Content)+`"`)
	s.writeContent(w, r, f)
}

// writeContent writes content, or a range of it.
func (s *Server) writeContent(w http.ResponseWriter, r *http.Request, f *File) {
	w.Header().Set("Content-Type", "application/octet-stream")
	if s.NoRanges {
		r.Header.Del("Range")
	}
	content := f.Content
	if s.Damage != nil {
		content = s.Damage(f.Path, content)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// content is the content server.
func (s *Server) content(w http.ResponseWriter, r *http.Request) {
	s.Lock()
	defer s.Unlock()
	s.requests = append(s.requests, "CDN "+r.RequestURI)
	if r.Header.Get("Authorization") != "" {
		s.leaked = append(s.leaked, r.RequestURI)
	}
	if r.URL.Query().Get("X-Amz-Signature") != "secret"+s.Signature {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	id, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	for _, repo := range s.repos {
		if c := repo.revisions[id]; c != nil && c.file(path) != nil {
			s.writeContent(w, r, c.file(path))
			return
		}
	}
	http.NotFound(w, r)
}
