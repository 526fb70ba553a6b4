package hubwrite

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
)

// batchPath is the last segment of the batch API of git-lfs.
const batchPath = "batch"

// lfsType is the type of the documents of git-lfs.
const lfsType = "application/vnd.git-lfs+json"

// A batchRequest is what git-lfs sends. Only its uploads exist here.
type batchRequest struct {
	Operation string   `json:"operation"`
	Transfers []string `json:"transfers"`
	HashAlgo  string   `json:"hash_algo"`
	Ref       *struct {
		Name string `json:"name"`
	} `json:"ref"`
	Objects list[wantedObject] `json:"objects"`
}

type wantedObject struct {
	OID  string `json:"oid"`
	Size int64  `json:"size"`
}

// A batchObject is the answer for an object. An object without actions needs no upload.
type batchObject struct {
	OID           string            `json:"oid"`
	Size          int64             `json:"size"`
	Authenticated bool              `json:"authenticated,omitempty"`
	Actions       map[string]action `json:"actions,omitempty"`
	Error         *objectError      `json:"error,omitempty"`
}

type objectError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// An action is where to upload an object.
type action struct {
	Href      string            `json:"href"`
	Header    map[string]string `json:"header,omitempty"`
	ExpiresIn int64             `json:"expires_in,omitempty"` // seconds
}

// serveBatch sends the actions for large files.
func (h *handler) serveBatch(w http.ResponseWriter, r *http.Request, t hubserve.Target) error {
	var in batchRequest
	if err := h.readList(w, r, &in); err != nil {
		return err
	}
	if err := in.check(); err != nil {
		return err
	}
	b := batch{h: h, r: r, id: t.Repo, transfer: "basic"}
	if slices.Contains(in.Transfers, "xet") {
		b.transfer = "xet"
	}
	token, err := h.o.Repos.WriteToken(r.Context(), t.Repo)
	if err != nil {
		return err
	}
	b.token = token
	objects, err := b.objects(in.Objects)
	if err != nil {
		return err
	}
	doc, err := json.Marshal(map[string]any{"transfer": b.transfer, "objects": objects, "hash_algo": "sha256"})
	if err != nil {
		return fmt.Errorf("encode the answer: %v", err)
	}
	w.Header().Set("Content-Type", lfsType)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(len(doc)))
	_, _ = w.Write(doc) // the client may have closed the connection
	return nil
}

// check refuses what this server does not have.
func (in *batchRequest) check() error {
	switch {
	case in.Operation != "upload":
		return &hubserve.Refusal{Status: http.StatusUnprocessableEntity, Text: "this server has no downloads by LFS; read files at /REPO/resolve/main/PATH"}
	case in.HashAlgo != "" && in.HashAlgo != "sha256" && in.HashAlgo != "sha_256":
		return &hubserve.Refusal{Status: http.StatusConflict, Text: "the hash_algo must be sha256"}
	case in.Ref != nil && in.Ref.Name != "":
		return checkRevision(in.Ref.Name)
	}
	return nil
}

// A batch makes the answers for the objects of one request.
type batch struct {
	h        *handler
	r        *http.Request
	id       hub.RepoID
	transfer string
	token    WriteToken
}

// objects returns the answers for the objects of the request.
func (b *batch) objects(wanted []wantedObject) ([]batchObject, error) {
	answers := make([]batchObject, len(wanted))
	var valid []Object
	var at []int // the answers of valid
	for i, o := range wanted {
		answers[i] = batchObject{OID: o.OID, Size: o.Size}
		sum, ok := parseSum(o.OID)
		if !ok || o.Size < 0 {
			answers[i].Error = &objectError{http.StatusUnprocessableEntity, "the oid must be a SHA-256 and the size a number of bytes"}
			continue
		}
		valid, at = append(valid, Object{SHA256: sum, Size: o.Size}), append(at, i)
	}
	exist, err := b.h.o.Repos.HasObjects(b.r.Context(), b.id, valid)
	if err != nil {
		return nil, err
	}
	for i, o := range valid {
		if exist[i] {
			continue
		}
		if err := b.addUpload(&answers[at[i]], o); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// addUpload adds to an answer where to upload its object.
func (b *batch) addUpload(answer *batchObject, o Object) error {
	answer.Authenticated = true
	if b.transfer == "xet" {
		answer.Actions = map[string]action{"upload": {
			Href:      hubserve.Base(b.r) + b.id.API() + "/" + hubserve.VerbWriteToken + "/main",
			Header:    tokenHeader(b.r, b.token),
			ExpiresIn: expiry(b.token.Expires),
		}}
		return nil
	}
	token, expires, err := b.h.o.Repos.ObjectToken(b.r.Context(), b.id, o)
	var refusal *hubserve.Refusal
	switch {
	case errors.As(err, &refusal):
		answer.Error = &objectError{refusal.Status, refusal.Text}
		return nil
	case err != nil:
		return err
	}
	answer.Actions = map[string]action{"upload": {
		Href:      hubserve.Base(b.r) + b.id.Page() + ".git/info/lfs/objects/" + answer.OID + "?token=" + url.QueryEscape(token),
		ExpiresIn: expiry(expires),
	}}
	return nil
}

// maxObject bounds the content of a PUT: 5 TiB as in S3.
const maxObject = 5 << 40

// servePut stores the content of a large file.
func (h *handler) servePut(w http.ResponseWriter, r *http.Request, t hubserve.Target) error {
	sum, ok := parseSum(t.Path)
	if !ok {
		return refuse("the last part of the path must be a SHA-256")
	}
	release, err := h.acquire(r, h.puts)
	if err != nil {
		return err
	}
	defer release()
	token := r.URL.Query().Get("token")
	if err := h.o.Repos.PutObject(r.Context(), token, t.Repo, sum, h.body(w, r, maxObject)); err != nil {
		return err
	}
	w.Header().Set("ETag", `"`+oidText(sum)+`"`)
	w.WriteHeader(http.StatusOK)
	return nil
}
