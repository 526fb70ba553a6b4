package stack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/metacache"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/auth"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/hubimport"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// IsHub reports whether SOURCE is a repository of the Hugging Face Hub.
func IsHub(source string) bool { return strings.HasPrefix(source, hub.Scheme) }

// hubName is the folder for the catalogs of repositories in the folder of all caches.
const hubName = "hub"

// A hubSource is an open repository of the Hub. Its catalog is on the local disk.
type hubSource struct {
	*hubimport.Importer
	repo    *hub.Repo
	remote  Remote
	offline bool        // no request is sent
	temp    string      // folder of the catalog without a folder of all caches; "": none
	xet     *cas.Client // nil: files are not read

	stop      context.CancelFunc // ends the follower
	following sync.WaitGroup
}

// openHub opens a repository and makes its current commit a version. If early is set, it does
// not wait for a long listing.
func openHub(ctx context.Context, address string, r Remote, early bool) (*hubSource, error) {
	h := &hubSource{remote: r, offline: auth.IsTrue(r.getenv("HF_HUB_OFFLINE")), stop: func() {}}
	err := h.open(ctx, address)
	switch {
	case err != nil:
	case early:
		err = h.Start(ctx)
	default:
		err = h.Update(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

func (h *hubSource) open(ctx context.Context, address string) error {
	a, err := hub.ParseAddress(address)
	if err != nil {
		return ArgumentError{err}
	}
	token := auth.NewHub(h.remote.getenv)
	if _, err := token.Token(); err != nil { // without the header, the server would give a wrong reason
		return ArgumentError{err}
	}
	h.repo, err = hub.Open(a, hub.Options{Endpoint: h.remote.getenv("HF_ENDPOINT"), Token: tokenFunc(token), Options: h.fetch()})
	if err != nil {
		return ArgumentError{err}
	}
	if !h.offline && strings.HasPrefix(h.repo.Endpoint(), "https:") {
		if err := checkAuthorities(h.remote.getenv); err != nil {
			return err
		}
	}
	folder := filepath.Join(h.remote.CacheDir, hubName)
	if h.remote.CacheDir == "" {
		if h.temp, err = os.MkdirTemp("", "xetfs-hub-"); err != nil {
			return ui.Reason(err)
		}
		folder = h.temp
	}
	h.Importer, err = hubimport.Open(ctx, h.repo, hubimport.Options{
		Folder: folder, Offline: h.offline, KeepDeleted: h.remote.KeepDeleted, Logger: h.remote.Log, Seen: h.seen,
	})
	return err
}

// seen is hubimport.Options.Seen. The repository may have been absent for a moment.
func (h *hubSource) seen() {
	if h.xet != nil {
		h.xet.RetryToken()
	}
}

// tokenFunc returns the token as it is now. With too many open files, it returns the last one.
func tokenFunc(h auth.Hub) func() (string, error) {
	var last atomic.Pointer[string]
	return func() (string, error) {
		token, err := h.Token()
		switch was := last.Load(); {
		case err == nil:
			last.Store(&token)
		case ui.IsNoDescriptor(err) && was != nil:
			return *was, nil
		case ui.IsNoDescriptor(err):
			err = fmt.Errorf("%w: %w", origin.ErrUnavailable, err)
		}
		return token, err
	}
}

// fetch returns the options of requests.
func (h *hubSource) fetch() fetch.Options {
	o := fetch.Options{Logger: h.remote.Log, Limits: h.remote.limits(), Counters: h.remote.Counters}
	if h.offline {
		o.Transport = offline{}
	}
	return o
}

// An offline refuses all requests. No call is repeated.
type offline struct{}

// RoundTrip implements http.RoundTripper.
func (offline) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &origin.HintError{Err: hubimport.ErrOffline, Tries: 1}
}

// connect requests the token for reads, before the first one.
func (h *hubSource) connect() {
	if !h.offline {
		h.xet.Connect()
	}
}

// source returns the files of the repository. Metadata is stored in backend, which may be nil.
func (h *hubSource) source(backend metacache.Backend, b Budget) origin.Source {
	h.xet = cas.NewClient(cas.Options{
		Tokens: cas.TokenFunc(func(ctx context.Context) (cas.Token, error) {
			t, err := h.repo.ReadToken(ctx)
			return cas.Token(t), err
		}),
		Backend: backend, Scope: h.repo.Endpoint() + " " + h.Symbol(), Fetch: h.fetch(),
		Bytes: b.Infos, SegmentBytes: max(1, b.ahead/2),
	})
	return hub.NewSplit(h.xet, hub.NewPlain(h.repo, h.Importer, backend))
}

// follow polls the Hub for new commits until Close; 0: never.
func (h *hubSource) follow(period time.Duration) {
	if period == 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.stop = cancel
	h.following.Go(func() { h.Follow(ctx, period) })
}

// Close ends the follower and closes everything.
func (h *hubSource) Close() error {
	h.stop()
	h.following.Wait()
	if h.xet != nil {
		h.xet.Close()
	}
	var err error
	if h.Importer != nil {
		err = h.Importer.Close()
	}
	if h.repo != nil {
		h.repo.Close()
	}
	if h.temp != "" {
		err = errors.Join(err, os.RemoveAll(h.temp))
	}
	return err
}

// checkHub returns an error for an invalid address of a repository.
func checkHub(address string) error {
	_, err := hub.ParseAddress(address)
	return err
}
