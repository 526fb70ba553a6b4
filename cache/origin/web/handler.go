package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// An ItemReader is a store with the size and the time of change of each object.
type ItemReader interface {
	// Item returns one object as List does. It returns origin.ErrNotFound for an object that
	// List would not yield, for example a link in a folder.
	Item(ctx context.Context, k names.Key) (origin.Item, error)
}

// HandlerOptions tune a handler. The zero value is that of a public server.
type HandlerOptions struct {
	Private bool // clients need a token: no shared cache may store an answer
}

// A handler serves the objects of a store under their keys.
type handler struct {
	store   origin.Store
	forever string // Cache-Control of objects that never change
	listing *listingCache
	sizes   sizeCache
}

// NewHandler returns a handler that serves the objects of a store under their keys. It answers
// like a plain web server with the folder of the store, with ranges and ETags. It generates the
// listing from the store. A path that is no key is not found, and so is the state of a sweep.
func NewHandler(s origin.Store, o HandlerOptions) http.Handler {
	h := &handler{store: s, forever: "public, " + neverChanges, listing: newListingCache(), sizes: newSizeCache()}
	if o.Private {
		h.forever = "private, " + neverChanges
	}
	return h
}

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
	case names.SweepKind, names.SweepListKind, names.ReceiptKind: // private to writers
		return origin.ErrNotFound
	case names.ShardKind, names.XorbKind:
		return h.serveData(w, r, k)
	}
	return h.serveDocument(w, r, k, p.Kind)
}

// serveError sends the status of err.
func serveError(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, origin.ErrNotFound), errors.Is(err, errors.ErrUnsupported): // no listing
		http.Error(w, "not found", http.StatusNotFound)
	case errors.Is(err, iofs.ErrPermission):
		http.Error(w, "the store refuses to serve this server", http.StatusBadGateway)
	case errors.Is(err, origin.ErrUnavailable):
		http.Error(w, "it cannot be read just now", http.StatusServiceUnavailable)
	default:
		http.Error(w, "it cannot be read", http.StatusInternalServerError)
	}
}

// The values of Cache-Control for objects that never change, and for those that do.
const (
	neverChanges = "max-age=31536000, immutable"
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

// item returns the size of a shard or xorb, and its time of change if the store has one.
func (h *handler) item(ctx context.Context, k names.Key) (origin.Item, error) {
	if s, ok := h.store.(ItemReader); ok {
		return s.Item(ctx, k)
	}
	if size, ok := h.sizes.get(k); ok {
		return origin.Item{Key: k, Size: size}, nil
	}
	size, err := h.store.Size(ctx, k)
	if err == nil {
		h.sizes.add(k, size)
	}
	return origin.Item{Key: k, Size: size}, err
}

// serveData sends a shard or xorb.
func (h *handler) serveData(w http.ResponseWriter, r *http.Request, k names.Key) error {
	item, err := h.item(r.Context(), k)
	if err != nil {
		return err
	}
	etag := fmt.Sprintf(`"%x-%x"`, item.Size, item.Modified.UnixNano())
	content := &objectReader{ctx: r.Context(), store: h.store, item: item, header: w.Header()}
	defer func() {
		if content.stop() {
			h.sizes.remove(k) // a sweep may have deleted the object
		}
	}()
	serveContent(w, r, etag, h.forever, item.Modified, content)
	return nil
}

// serveDocument sends a small object of the catalog.
func (h *handler) serveDocument(w http.ResponseWriter, r *http.Request, k names.Key, kind names.Kind) error {
	if s, ok := h.store.(ItemReader); ok {
		if _, err := s.Item(r.Context(), k); err != nil {
			return err // also for a link
		}
	}
	value, tag, err := h.store.Get(r.Context(), k, "")
	if err != nil {
		return err
	}
	caching := h.forever
	switch kind {
	case names.RefKind, names.SnapshotKind, names.SettingsKind:
		caching = revalidate
	}
	etag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(tag))) // a tag may have quotes
	serveContent(w, r, etag, caching, time.Time{}, bytes.NewReader(value))
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

// remotePiece is the length of the requests to a remote store, and the memory of an answer.
const remotePiece = 512 << 10

// An objectReader reads an object for one answer. The goroutine by which http.ServeContent reads
// several ranges may continue after it has returned.
type objectReader struct {
	ctx    context.Context // of the request: io.Reader has no argument for it
	store  origin.Store
	item   origin.Item
	header http.Header // of the answer

	mu      sync.Mutex // held during reads
	off     int64      // guarded by mu
	piece   []byte     // of a remote store; guarded by mu
	at      int64      // offset of piece; guarded by mu
	sent    int64      // bytes of the answer before off; guarded by mu
	failed  bool       // a read of the store failed; guarded by mu
	stopped bool       // guarded by mu
}

// errStopped is the error of a read after stop.
var errStopped = errors.New("the answer has ended")

// stop waits for the read under way and makes later ones fail. It reports whether a read of the
// store failed.
func (o *objectReader) stop() (failed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopped = true
	return o.failed
}

// Read implements io.Reader.
func (o *objectReader) Read(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stopped {
		return 0, errStopped
	}
	n := min(int64(len(p)), o.item.Size-o.off)
	if n <= 0 {
		return 0, io.EOF
	}
	var err error
	if p = p[:n]; origin.Local(o.store) {
		err = o.store.ReadAt(o.ctx, o.item.Key, p, o.off)
	} else if err = o.fillLocked(); err == nil {
		n = int64(copy(p, o.piece[o.off-o.at:]))
	}
	if err != nil {
		o.failed = true
		return 0, err
	}
	o.off += n
	o.sent += n
	return int(n), nil
}

// fillLocked reads the piece of a remote store at off, but nothing behind the requested range.
func (o *objectReader) fillLocked() error {
	if o.at <= o.off && o.off < o.at+int64(len(o.piece)) {
		return nil
	}
	n := min(remotePiece, o.item.Size-o.off)
	if length, err := strconv.ParseInt(o.header.Get("Content-Length"), 10, 64); err == nil && length > o.sent {
		n = min(n, length-o.sent) // http.ServeContent sets it before it reads
	}
	if int64(cap(o.piece)) < n {
		o.piece = make([]byte, n)
	}
	o.piece, o.at = o.piece[:n], o.off
	if err := o.store.ReadAt(o.ctx, o.item.Key, o.piece, o.off); err != nil {
		o.piece = o.piece[:0]
		return err
	}
	return nil
}

// Seek implements io.Seeker.
func (o *objectReader) Seek(off int64, whence int) (int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
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
