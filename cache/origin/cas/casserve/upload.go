package casserve

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/codec"
)

// The routes of uploads. Grants are not offered: their 404 leads clients to the plain upload.
const (
	chunksPath   = "/v1/chunks/default/"
	shardsV1Path = "/v1/shards"
	shardsV2Path = "/v2/shards"
)

// Uploads stores what clients send. *upload.Store implements it. PutShard calls progress from one
// goroutine, and no more once it has returned.
type Uploads interface {
	PutXorb(ctx context.Context, name codec.Hash, body io.Reader, length int64) (inserted bool, err error)
	PutShard(ctx context.Context, sess upload.SessionID, body io.Reader, length int64, progress upload.Progress) ([]upload.Content, error)
	Dedup(ctx context.Context, chunk codec.Hash) (shard []byte, err error)
}

const (
	bodyIdle   = time.Minute // without a byte of the client
	retryAfter = "5"         // seconds
	maxDrained = 80 << 20    // bytes of a refused body that are read: the largest shard
	drainTime  = 5 * time.Minute
)

// HeaderMessage is the header with the text of a refused upload.
const HeaderMessage = "X-Error-Message"

// errReadOnly is the answer to an upload without Uploads.
var errReadOnly = &statusError{http.StatusForbidden, "this server is read-only; a folder or a bucket takes uploads with xetfs serve --writable, and a mirror takes none"}

// session returns the session of the token in the header Authorization.
func (h *handler) session(r *http.Request) (upload.SessionID, error) {
	if h.Uploads == nil || h.AuthorizeWrite == nil {
		return "", errReadOnly
	}
	sess, err := h.AuthorizeWrite(r.Context(), bearer(r))
	if errors.Is(err, fs.ErrPermission) {
		err = &statusError{http.StatusForbidden, "the token may not write to this repository"}
	}
	return sess, err
}

// serveUpload answers an upload with put. After an error it drains the body.
func (h *handler) serveUpload(w *answer, r *http.Request, put func(sess upload.SessionID, body io.Reader) error) error {
	body := upload.NewClientBody(r.Body, http.NewResponseController(w.ResponseWriter), bodyIdle)
	sess, err := h.session(r)
	if err == nil {
		err = put(sess, body)
	}
	if err != nil && !w.began {
		body.Drain(r.ContentLength, maxDrained, drainTime)
		_, text := statusOf(err)
		w.Header().Set(HeaderMessage, text)
	}
	return err
}

// serveXorb answers an upload of a xorb.
func (h *handler) serveXorb(w *answer, r *http.Request, text string) error {
	return h.serveUpload(w, r, func(_ upload.SessionID, body io.Reader) error {
		name, err := parseHash(text)
		if err != nil {
			return err
		}
		inserted, err := h.Uploads.PutXorb(r.Context(), name, body, r.ContentLength)
		if err != nil {
			return err
		}
		return writeJSON(w, "application/json", map[string]bool{"was_inserted": inserted})
	})
}

// serveShardV1 answers an upload of a shard with one document.
func (h *handler) serveShardV1(w *answer, r *http.Request) error {
	return h.serveUpload(w, r, func(sess upload.SessionID, body io.Reader) error {
		if _, err := h.Uploads.PutShard(r.Context(), sess, body, r.ContentLength, nil); err != nil {
			return err
		}
		return writeJSON(w, "application/json", map[string]int{"result": 1})
	})
}

// A shardLine is one line of the answer to POST /v2/shards. Clients pass over unknown types.
type shardLine struct {
	Type    string `json:"type"` // "progress", "result" or "error"
	Stage   string `json:"stage,omitempty"`
	Done    *int64 `json:"done,omitempty"`
	Total   *int64 `json:"total,omitempty"`
	Message string `json:"message,omitempty"`
}

// serveShardV2 answers an upload of a shard with lines of JSON. Most shards are checked before the
// second report of progress; their answer is the result or an error status. Otherwise lines report
// the progress every few seconds, so that no client or proxy gives up. An error is then the last
// line.
func (h *handler) serveShardV2(w *answer, r *http.Request) error {
	return h.serveUpload(w, r, func(sess upload.SessionID, body io.Reader) error {
		l := &shardLines{w: w}
		_, err := h.Uploads.PutShard(r.Context(), sess, body, r.ContentLength, l.progress)
		if err != nil {
			if !w.began {
				return err
			}
			_, text := uploadStatus(err)
			_ = l.write(shardLine{Type: "error", Message: text}) // a client that has left gets no line
			if isFault(err) {
				h.Report(r, err)
			}
			return nil
		}
		return l.write(shardLine{Type: "result"})
	})
}

// shardLines writes the lines of an answer.
type shardLines struct {
	w       *answer
	reports int
}

func (l *shardLines) progress(stage string, done, total int64) {
	if l.reports++; l.reports == 1 {
		return
	}
	_ = l.write(shardLine{Type: "progress", Stage: stage, Done: &done, Total: &total}) // the next line fails, too
}

func (l *shardLines) write(line shardLine) error {
	if err := writeJSON(l.w, "application/x-ndjson", line); err != nil {
		return err
	}
	_ = http.NewResponseController(l.w.ResponseWriter).Flush()
	return nil
}

// writeJSON writes one line of JSON.
func writeJSON(w *answer, contentType string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if !w.began {
		w.Header().Set("Content-Type", contentType)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// serveChunk answers a query for deduplication. Without Uploads no chunk is known.
func (h *handler) serveChunk(w *answer, r *http.Request, text string) error {
	if h.Uploads == nil || h.AuthorizeWrite == nil {
		return errNoChunk
	}
	if _, err := h.session(r); err != nil {
		return err
	}
	chunk, err := parseHash(text)
	if err != nil {
		return err
	}
	b, err := h.Uploads.Dedup(r.Context(), chunk)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	setLength(w.Header(), int64(len(b)))
	_, err = w.Write(b)
	return err
}

// errNoChunk leads a client to store the chunk.
var errNoChunk = &statusError{http.StatusNotFound, "not found"}

// uploadStatus returns the status and the text for an error of Uploads, or 0.
func uploadStatus(err error) (status int, text string) {
	switch {
	case errors.Is(err, upload.ErrRefused):
		return http.StatusBadRequest, err.Error()
	case errors.Is(err, upload.ErrTooLarge):
		return http.StatusRequestEntityTooLarge, err.Error()
	case errors.Is(err, upload.ErrSlow):
		return http.StatusRequestTimeout, err.Error()
	case errors.Is(err, upload.ErrBusy):
		return http.StatusTooManyRequests, upload.ErrBusy.Error()
	case errors.Is(err, upload.ErrFull):
		return http.StatusInsufficientStorage, err.Error()
	}
	return 0, "the upload could not be stored; try again later"
}
