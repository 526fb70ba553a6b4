package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// An ItemStore is a store with the size and the time of change of each object.
type ItemStore interface {
	origin.Store

	// Item returns one object as List does. It returns origin.ErrNotFound for an object that
	// List would not yield, for example a link in a folder.
	Item(ctx context.Context, k names.Key) (origin.Item, error)
}

// A handler serves the objects of a store under their keys.
type handler struct {
	store   ItemStore
	listing listingCache
}

// NewHandler returns a handler that serves the objects of a store under their keys. It answers
// like a plain web server with the folder of the store, with ranges and ETags. It generates the
// listing from the store. A path that is no key is not found, and so is the state of a sweep.
func NewHandler(s ItemStore) http.Handler { return &handler{store: s} }

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	if err := h.serve(w, r, names.Key(strings.TrimPrefix(r.URL.Path, "/"))); err != nil {
		serveError(w, err)
	}
}

// serve sends one object, or returns an error before the first byte.
func (h *handler) serve(w http.ResponseWriter, r *http.Request, k names.Key) error {
	if k == listing.Key {
		return h.serveListing(w, r)
	}
	p, err := names.ParseKey(k)
	if err != nil {
		return origin.ErrNotFound
	}
	switch p.Kind {
	case names.SweepKind, names.SweepListKind: // private to writers
		return origin.ErrNotFound
	case names.ShardKind, names.XorbKind:
		return h.serveData(w, r, k)
	}
	return h.serveDocument(w, r, k, p.Kind)
}

// serveError sends the status of err.
func serveError(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, origin.ErrNotFound):
		http.Error(w, "not found", http.StatusNotFound)
	case errors.Is(err, origin.ErrUnavailable):
		http.Error(w, "it cannot be read just now", http.StatusServiceUnavailable)
	default:
		http.Error(w, "it cannot be read", http.StatusInternalServerError)
	}
}

// The values of Cache-Control for objects that never change, and for those that do.
const (
	cacheForever = "public, max-age=31536000, immutable"
	revalidate   = "no-cache"
)

// serveContent sends content, or the range that the request names.
func serveContent(w http.ResponseWriter, r *http.Request, etag, caching string, modified time.Time, content io.ReadSeeker) {
	head := w.Header()
	head.Set("Content-Type", "application/octet-stream")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", caching)
	head.Set("ETag", etag)
	http.ServeContent(w, r, "", modified, content)
}

// serveData sends a shard or xorb.
func (h *handler) serveData(w http.ResponseWriter, r *http.Request, k names.Key) error {
	item, err := h.store.Item(r.Context(), k)
	if err != nil {
		return err
	}
	etag := fmt.Sprintf(`"%x-%x"`, item.Size, item.Modified.UnixNano())
	serveContent(w, r, etag, cacheForever, item.Modified, &objectReader{ctx: r.Context(), store: h.store, item: item})
	return nil
}

// serveDocument sends a small object of the catalog.
func (h *handler) serveDocument(w http.ResponseWriter, r *http.Request, k names.Key, kind names.Kind) error {
	if _, err := h.store.Item(r.Context(), k); err != nil {
		return err // also for a link
	}
	value, tag, err := h.store.Get(r.Context(), k, "")
	if err != nil {
		return err
	}
	caching := cacheForever
	switch kind {
	case names.RefKind, names.SnapshotKind, names.SettingsKind:
		caching = revalidate
	}
	serveContent(w, r, `"`+string(tag)+`"`, caching, time.Time{}, bytes.NewReader(value))
	return nil
}

// serveListing sends the listing of the store.
func (h *handler) serveListing(w http.ResponseWriter, r *http.Request) error {
	b, etag, err := h.listing.get(r.Context(), h.store)
	if err != nil {
		return err
	}
	serveContent(w, r, etag, revalidate, time.Time{}, bytes.NewReader(b))
	return nil
}

// An objectReader reads an object for one answer.
type objectReader struct {
	ctx   context.Context // of the request: io.Reader has no argument for it
	store origin.Store
	item  origin.Item
	off   int64
}

// Read implements io.Reader.
func (o *objectReader) Read(p []byte) (int, error) {
	n := min(int64(len(p)), o.item.Size-o.off)
	if n <= 0 {
		return 0, io.EOF
	}
	if err := o.store.ReadAt(o.ctx, o.item.Key, p[:n], o.off); err != nil {
		return 0, err
	}
	o.off += n
	return int(n), nil
}

// Seek implements io.Seeker.
func (o *objectReader) Seek(off int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		off += o.off
	case io.SeekEnd:
		off += o.item.Size
	}
	if off < 0 {
		return 0, errors.New("a place before the beginning")
	}
	o.off = off
	return off, nil
}
