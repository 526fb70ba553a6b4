package hubwrite

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
	"github.com/xetfs/xetfs/cache/origin/upload"
)

// Options tune a handler. The zero value is right but for Repos.
type Options struct {
	Repos  Repos
	Limits Limits

	Private bool // by the answer to the creation of a repository

	Commits int           // at a time; 0: 16. Further ones wait up to Wait and then get 429
	Puts    int           // of large files at a time; 0: 16
	Wait    time.Duration // for a slot; 0: 30 s
	Idle    time.Duration // without a byte of a body; 0: 1 minute
}

// A handler answers the requests of the package comment.
type handler struct {
	o       Options
	commits chan struct{} // slots
	puts    chan struct{} // slots
	lists   chan struct{} // slots for bodies of maxListBody, which are in memory
}

var _ hubserve.Writes = (*handler)(nil)

// NewHandler returns the write side of the Hub API. It checks no tokens: the Repos decide by the
// context what a client may change. Only the PUT of an object carries a token of its own.
func NewHandler(o Options) hubserve.Writes {
	o.Commits, o.Puts = cmp.Or(o.Commits, 16), cmp.Or(o.Puts, 16)
	o.Wait, o.Idle = cmp.Or(o.Wait, 30*time.Second), cmp.Or(o.Idle, time.Minute)
	return &handler{
		o: o, commits: make(chan struct{}, o.Commits), puts: make(chan struct{}, o.Puts), lists: make(chan struct{}, maxLists),
	}
}

// Bounds of small bodies in bytes.
const (
	maxSmallBody   = 64 << 10
	maxListBody    = 8 << 20 // of preupload and the batch of LFS
	maxListEntries = 5000
	maxLists       = 8 // at a time
)

// Bounds of the rest of a refused commit. huggingface_hub sends about 250 files per commit, and
// those in the body have at most 64 KiB (maxRegular): 22 MiB in base64. A link of 1 Mbit/s needs
// 4.5 minutes for 32 MiB.
const (
	maxDrained = 32 << 20 // bytes
	drainTime  = 5 * time.Minute
)

// ServeWrite implements hubserve.Writes.
func (h *handler) ServeWrite(w http.ResponseWriter, r *http.Request, t hubserve.Target) error {
	if method := methodOf(t, r.Method); method != r.Method {
		w.Header().Set("Allow", method)
		return &hubserve.Refusal{Status: http.StatusMethodNotAllowed, Text: "only " + method}
	}
	if err := checkBranch(r, t); err != nil {
		return err
	}
	switch t.Verb {
	case hubserve.VerbCreate:
		return h.serveCreate(w, r)
	case hubserve.VerbDelete:
		return h.serveDelete(w, r)
	case hubserve.VerbMove:
		return h.serveMove(w, r)
	case hubserve.VerbYAML:
		return h.serveYAML(w, r)
	case hubserve.VerbPreupload:
		return h.servePreupload(w, r, t)
	case hubserve.VerbWriteToken:
		return h.serveToken(w, r, t)
	case hubserve.VerbCommit:
		return h.serveCommit(w, r, t)
	case hubserve.VerbLFS:
		if t.Path == batchPath {
			return h.serveBatch(w, r, t)
		}
		return h.servePut(w, r, t)
	}
	return refuse("this server has no branches, tags, pull requests and discussions; commit to main")
}

// methodOf returns the method of a route. The routes of missing features have any, so also that of
// the request.
func methodOf(t hubserve.Target, method string) string {
	switch t.Verb {
	case hubserve.VerbDelete:
		return http.MethodDelete
	case hubserve.VerbWriteToken:
		return http.MethodGet
	case hubserve.VerbBranch, hubserve.VerbTag, hubserve.VerbDiscuss:
		return method
	case hubserve.VerbLFS:
		if t.Path != batchPath {
			return http.MethodPut
		}
	}
	return http.MethodPost
}

// checkBranch refuses requests for pull requests and for other branches than main.
func checkBranch(r *http.Request, t hubserve.Target) error {
	if pr := r.URL.Query().Get("create_pr"); pr != "" && pr != "0" && !strings.EqualFold(pr, "false") {
		return refuse("this server has no pull requests; commit to main without create_pr")
	}
	switch t.Verb {
	case hubserve.VerbPreupload, hubserve.VerbCommit, hubserve.VerbWriteToken:
		return checkRevision(t.Revision)
	case hubserve.VerbBranch, hubserve.VerbTag, hubserve.VerbDiscuss:
		return refuse("this server has no branches, tags, pull requests and discussions; commit to main")
	}
	return nil
}

// checkRevision refuses other branches than main.
func checkRevision(revision string) error {
	if !slices.Contains([]string{"main", "HEAD", "refs/heads/main"}, revision) {
		return &hubserve.Refusal{Status: http.StatusNotFound, Code: "RevisionNotFound", Text: "this server has one branch; commit to main"}
	}
	return nil
}

// readList decodes a body of up to maxListBody bytes.
func (h *handler) readList(w http.ResponseWriter, r *http.Request, doc any) error {
	release, err := h.acquire(r, h.lists)
	if err != nil {
		return err
	}
	defer release()
	return h.readJSON(w, r, maxListBody, doc)
}

// readJSON decodes a small body.
func (h *handler) readJSON(w http.ResponseWriter, r *http.Request, limit int64, doc any) error {
	body := h.body(w, r, limit)
	b, err := io.ReadAll(body)
	if err != nil {
		return bodyError(err)
	}
	var refusal *hubserve.Refusal
	switch err := json.Unmarshal(b, doc); {
	case errors.As(err, &refusal):
		return refusal
	case err != nil:
		return refuse("the body is not the JSON of this request")
	}
	return nil
}

// A list has at most maxListEntries elements. A longer one is refused before its elements are
// allocated, because two bytes of JSON may become a hundred in memory.
type list[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (l *list[T]) UnmarshalJSON(b []byte) error {
	*l = nil
	d := json.NewDecoder(bytes.NewReader(b))
	switch start, err := d.Token(); {
	case err != nil || start == nil: // null is an empty list
		return err
	case start != json.Delim('['):
		return errors.New("it is no list")
	}
	for d.More() {
		if len(*l) == maxListEntries {
			return tooLarge("at most %d entries in one request", maxListEntries)
		}
		var element T
		if err := d.Decode(&element); err != nil {
			return err
		}
		*l = append(*l, element)
	}
	return nil
}

// bodyError returns the error for a body that cannot be read.
func bodyError(err error) error {
	var large *http.MaxBytesError
	var refusal *hubserve.Refusal
	switch {
	case errors.As(err, &refusal):
		return err
	case errors.Is(err, upload.ErrSlow):
		return &hubserve.Refusal{Status: http.StatusRequestTimeout, Text: err.Error()}
	case errors.As(err, &large):
		return tooLarge("the body has more than %d bytes", large.Limit)
	}
	return refuse("the body ended early")
}

// body returns the body of a request, which ends with an error after limit bytes and after Idle
// without a byte. A body that arrives too slowly ends, too.
func (h *handler) body(w http.ResponseWriter, r *http.Request, limit int64) *upload.ClientBody {
	return upload.NewClientBody(http.MaxBytesReader(w, r.Body, limit), http.NewResponseController(w), h.o.Idle)
}

// acquire waits for a slot. It returns a refusal with 429 after the longest wait.
func (h *handler) acquire(r *http.Request, slots chan struct{}) (release func(), err error) {
	timer := time.NewTimer(h.o.Wait)
	defer timer.Stop()
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-timer.C:
	case <-r.Context().Done():
	}
	return nil, &hubserve.Refusal{Status: http.StatusTooManyRequests, Text: "too many uploads run at the moment; try again later"}
}

// serveToken sends a token for uploads, in the body and in headers: clients read one or the other.
func (h *handler) serveToken(w http.ResponseWriter, r *http.Request, t hubserve.Target) error {
	token, err := h.o.Repos.WriteToken(r.Context(), t.Repo)
	if err != nil {
		return err
	}
	head := w.Header()
	for name, value := range tokenHeader(r, token) {
		head.Set(name, value)
	}
	head.Set("Cache-Control", "no-store")
	return hubserve.SendJSON(w, r, http.StatusOK, map[string]any{
		"accessToken": token.Token, "exp": token.Expires.Unix(), "casUrl": hubserve.Base(r),
	})
}

// tokenHeader returns the headers with a token for uploads.
func tokenHeader(r *http.Request, t WriteToken) map[string]string {
	return map[string]string{
		"X-Xet-Access-Token":     t.Token,
		"X-Xet-Token-Expiration": strconv.FormatInt(t.Expires.Unix(), 10),
		"X-Xet-Cas-Url":          hubserve.Base(r),
		"X-Xet-Session-Id":       t.Session,
	}
}

// serveCommit makes a commit.
func (h *handler) serveCommit(w http.ResponseWriter, r *http.Request, t hubserve.Target) error {
	if err := t.Repo.Check(); err != nil {
		return refuse("%v", err)
	}
	release, err := h.acquire(r, h.commits)
	if err != nil {
		return err
	}
	limits := h.o.Limits
	limits.fill()
	body := h.body(w, r, limits.Body)
	oid, err := h.commit(r, t.Repo, body, limits)
	release() // a refused body that arrives slowly keeps no slot
	if err != nil {
		body.Drain(r.ContentLength, maxDrained, drainTime)
		return err
	}
	return hubserve.SendJSON(w, r, http.StatusOK, map[string]any{
		"success": true, "commitOid": oid, "commitUrl": hubserve.Base(r) + t.Repo.Page() + "/commit/" + oid, "hookOutput": "",
	})
}

// commit makes the commit of a body.
func (h *handler) commit(r *http.Request, id hub.RepoID, body io.Reader, l Limits) (oid string, err error) {
	c, err := ReadCommit(body, l)
	if err != nil {
		return "", bodyError(err)
	}
	operations := c.Operations
	c.Operations = func(yield func(Operation, error) bool) {
		for op, err := range operations {
			if err != nil {
				err = bodyError(err)
			}
			if !yield(op, err) {
				return
			}
		}
	}
	return h.o.Repos.Commit(r.Context(), id, c)
}

// idOf returns the repository that a body names.
func idOf(kind, organization, name string) (hub.RepoID, error) {
	id := hub.RepoID{Type: hub.RepoType(kind), Name: name}
	if kind == "" {
		id.Type = hub.Model
	}
	if organization != "" {
		id.Name = organization + "/" + name
	}
	switch {
	case id.Type != hub.Model && id.Type != hub.Dataset && id.Type != hub.Space:
		return id, refuse("the type of a repository must be model, dataset or space")
	case !hubserve.IsRepoName(id.Name):
		return id, refuse("the name of a repository must be NAME or OWNER/NAME")
	}
	return id, nil
}

// newID is idOf for a new name of a repository.
func newID(kind, organization, name string) (hub.RepoID, error) {
	id, err := idOf(kind, organization, name)
	if err != nil {
		return id, err
	}
	if err := id.Check(); err != nil {
		return id, refuse("%v", err)
	}
	return id, nil
}

// sendTaken sends the answer for a name that is taken. Clients that accept an existing repository
// read its address.
func (h *handler) sendTaken(w http.ResponseWriter, r *http.Request, id hub.RepoID) error {
	const text = "a repository with this name exists"
	w.Header().Set("X-Error-Message", text)
	return hubserve.SendJSON(w, r, http.StatusConflict, map[string]string{"error": text, "url": hubserve.Base(r) + id.Page()})
}

// serveCreate makes a repository.
func (h *handler) serveCreate(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Name, Organization, Type string
		Files                    []json.RawMessage
	}
	if err := h.readJSON(w, r, maxSmallBody, &in); err != nil {
		return err
	}
	id, err := newID(in.Type, in.Organization, in.Name)
	switch {
	case err != nil:
		return err
	case len(in.Files) > 0:
		return refuse("files cannot be created together with a repository; upload them afterwards")
	}
	switch err := h.o.Repos.Create(r.Context(), id); {
	case errors.Is(err, ErrRepoExists):
		return h.sendTaken(w, r, id)
	case err != nil:
		return err
	}
	return hubserve.SendJSON(w, r, http.StatusOK, map[string]any{
		"url": hubserve.Base(r) + id.Page(), "name": id.Name, "id": id.Name, "type": id.Type, "private": h.o.Private,
	})
}

// serveDelete removes a repository.
func (h *handler) serveDelete(w http.ResponseWriter, r *http.Request) error {
	var in struct{ Name, Organization, Type string }
	if err := h.readJSON(w, r, maxSmallBody, &in); err != nil {
		return err
	}
	id, err := idOf(in.Type, in.Organization, in.Name)
	if err == nil {
		err = h.o.Repos.Delete(r.Context(), id)
	}
	if err != nil {
		return err
	}
	return hubserve.SendJSON(w, r, http.StatusOK, map[string]bool{"success": true})
}

// serveMove renames a repository.
func (h *handler) serveMove(w http.ResponseWriter, r *http.Request) error {
	var in struct{ FromRepo, ToRepo, Type string }
	if err := h.readJSON(w, r, maxSmallBody, &in); err != nil {
		return err
	}
	from, err := idOf(in.Type, "", in.FromRepo)
	if err != nil {
		return err
	}
	to, err := newID(in.Type, "", in.ToRepo)
	if err != nil {
		return err
	}
	switch err := h.o.Repos.Move(r.Context(), from, to); {
	case errors.Is(err, ErrRepoExists):
		return h.sendTaken(w, r, to)
	case err != nil:
		return err
	}
	return hubserve.SendJSON(w, r, http.StatusOK, map[string]any{"success": true, "url": hubserve.Base(r) + to.Page()})
}

// serveYAML accepts the metadata of a README. This server does not read it.
func (h *handler) serveYAML(w http.ResponseWriter, r *http.Request) error {
	var in struct{ Content string }
	if err := h.readList(w, r, &in); err != nil {
		return err
	}
	return hubserve.SendJSON(w, r, http.StatusOK, map[string]any{"errors": []string{}, "warnings": []string{}})
}

// expiry returns the time until expires in whole seconds.
func expiry(expires time.Time) int64 { return max(1, int64(time.Until(expires).Seconds())) }

// oidText returns a SHA-256 as LFS writes it.
func oidText(sum [32]byte) string { return fmt.Sprintf("%x", sum) }
