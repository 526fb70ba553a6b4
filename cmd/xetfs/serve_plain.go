package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A servedStore is a store whose objects are given out.
type servedStore interface {
	stack.ReadStore
	Item(ctx context.Context, k names.Key) (origin.Item, error)
}

// openServed opens a folder for what it is.
func openServed(ctx context.Context, folder string, bare bool) (servedStore, error) {
	if !bare {
		keyed, err := dir.OpenReadOnly(folder)
		if err != nil {
			return nil, err
		}
		is, err := catalog.Exists(ctx, keyed)
		if is && err == nil {
			return keyed, nil
		}
		if err := errors.Join(err, keyed.Close()); err != nil {
			return nil, err
		}
	}
	return dir.OpenBare(ctx, folder)
}

// A plainHandler serves the objects of a store under their keys.
type plainHandler struct {
	store   servedStore
	listing madeListing
}

// ServeHTTP implements http.Handler. A path that is no key is not found, whatever the folder
// contains.
func (h *plainHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	k := names.Key(strings.TrimPrefix(r.URL.Path, "/"))
	if k == listing.Key {
		h.answer(w, h.serveListing(w, r))
		return
	}
	p, err := names.ParseKey(k)
	switch {
	case err != nil || p.Kind == names.SweepKind || p.Kind == names.SweepListKind:
		h.answer(w, origin.ErrNotFound) // the state of a sweep is nobody's business
	case p.Kind == names.ShardKind || p.Kind == names.XorbKind:
		h.answer(w, h.serveData(w, r, k))
	default:
		h.answer(w, h.serveDocument(w, r, k, p.Kind))
	}
}

// answer sends the status of err, if any.
func (h *plainHandler) answer(w http.ResponseWriter, err error) {
	switch {
	case err == nil:
	case errors.Is(err, origin.ErrNotFound):
		http.Error(w, "not found", http.StatusNotFound)
	case errors.Is(err, origin.ErrUnavailable):
		http.Error(w, "it cannot be read just now", http.StatusServiceUnavailable)
	default:
		http.Error(w, "it cannot be read", http.StatusInternalServerError)
	}
}

const (
	forEver = "public, max-age=31536000, immutable"
	askMe   = "no-cache"
)

// serveContent sends content, or the part that the request names.
func serveContent(w http.ResponseWriter, r *http.Request, etag, caching string, modified time.Time, content io.ReadSeeker) {
	head := w.Header()
	head.Set("Content-Type", "application/octet-stream")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", caching)
	head.Set("ETag", etag)
	http.ServeContent(w, r, "", modified, content)
}

// serveData sends a shard or xorb.
func (h *plainHandler) serveData(w http.ResponseWriter, r *http.Request, k names.Key) error {
	item, err := h.store.Item(r.Context(), k)
	if err != nil {
		return err
	}
	etag := fmt.Sprintf(`"%x-%x"`, item.Size, item.Modified.UnixNano())
	serveContent(w, r, etag, forEver, item.Modified, &objectReader{ctx: r.Context(), store: h.store, item: item})
	return nil
}

// serveDocument sends a small object of the catalog.
func (h *plainHandler) serveDocument(w http.ResponseWriter, r *http.Request, k names.Key, kind names.Kind) error {
	if _, err := h.store.Item(r.Context(), k); err != nil {
		return err // of a link, too
	}
	value, tag, err := h.store.Get(r.Context(), k, "")
	if err != nil {
		return err
	}
	caching := forEver
	switch kind {
	case names.RefKind, names.SnapshotKind, names.SettingsKind:
		caching = askMe
	}
	serveContent(w, r, `"`+string(tag)+`"`, caching, time.Time{}, bytes.NewReader(value))
	return nil
}

// An objectReader reads an object for one answer.
type objectReader struct {
	ctx   context.Context // of the answer; a reader has nowhere else for it
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

// A madeListing is the listing of a store, generated on request. A scan of a large store is
// slow, so the listing is cached for a time that grows with the time of the scan.
type madeListing struct {
	mu    sync.Mutex // held while it is made, because all waiting requests need the same
	b     []byte     // guarded by mu
	etag  string     // guarded by mu
	until time.Time  // guarded by mu
}

const (
	keepListing  = time.Second // at least
	keepPerWork  = 20          // times as long as it took to make
	listingLimit = time.Minute // to make it
)

// get returns the listing, and its tag.
func (l *madeListing) get(ctx context.Context, s origin.Store) ([]byte, string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	start := time.Now()
	if l.b != nil && start.Before(l.until) {
		return l.b, l.etag, nil
	}
	// Others will want it, too, if this one leaves.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listingLimit)
	defer cancel()
	b, err := listing.Encode(listing.Prefixes(), origin.ListPrefixes(ctx, s, listing.Prefixes()))
	if err != nil {
		return nil, "", err
	}
	l.b, l.etag = b, fmt.Sprintf(`"%s"`, b[max(0, len(b)-65):len(b)-1]) // its own checksum
	l.until = time.Now().Add(max(keepListing, keepPerWork*time.Since(start)))
	return l.b, l.etag, nil
}

func (h *plainHandler) serveListing(w http.ResponseWriter, r *http.Request) error {
	b, etag, err := h.listing.get(r.Context(), h.store)
	if err != nil {
		return err
	}
	serveContent(w, r, etag, askMe, time.Time{}, bytes.NewReader(b))
	return nil
}
