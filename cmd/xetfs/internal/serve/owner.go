package serve

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/logdedup"
	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
	"github.com/xetfs/xetfs/cache/recent"
)

// Bounds of an Owner.
const (
	openRepos    = 8                // repositories that stay open
	MaxOpenRepos = 2 * openRepos    // all open ones, also displaced ones in use
	idleRepo     = 10 * time.Minute // a repository without requests is closed
	openWait     = 8 * time.Second  // of a request; opening with a slot continues after it
	slotPoll     = time.Second / 20 // before each look for an unused repository
	absentRepos  = 1000             // refusals in memory
	absentAge    = 30 * time.Second // a refused repository is requested again
	failurePause = 10 * time.Minute // between two lines in the log for one repository
)

// OwnerOptions tune NewOwner. All are required.
type OwnerOptions struct {
	Name   string // of the owner
	Signer *casserve.Signer
	Log    *slog.Logger

	// Open opens the mirror of a repository, and returns a function that closes its SOURCE.
	Open func(ctx context.Context, id hub.RepoID) (*Site, func(), error)
}

// An Owner is a mirror of all repositories of an owner of the Hub. It opens a repository for the
// first request, and closes it when others displace it or when it is idle. A request waits for up to 8
// seconds until a repository is open.
type Owner struct {
	o       OwnerOptions
	access  Access       // set by routes
	none    http.Handler // answers of repositories that do not exist; set by routes
	repos   *recent.Set[hub.RepoID, *ownedRepo]
	opening flight.Group[hub.RepoID, struct{}]
	slots   chan struct{} // for open repositories
	started sync.Map      // hub.RepoID of those that are opened, with a slot

	ctx  context.Context // until Close
	stop context.CancelFunc

	mu     sync.Mutex
	absent *lru.Cache[hub.RepoID, absentRepo] // guarded by mu

	failures *logdedup.Handler // in front of the log: one line of a repository in a period
}

// An ownedRepo is an open repository.
type ownedRepo struct {
	api, xet http.Handler
	close    func()
}

// An absentRepo is a repository that the Hub refuses.
type absentRepo struct {
	err   error
	until time.Time
}

// NewOwner returns the mirror of an owner. It sends no request.
func NewOwner(o OwnerOptions) *Owner {
	ow := &Owner{o: o, slots: make(chan struct{}, MaxOpenRepos), absent: lru.New[hub.RepoID, absentRepo](absentRepos, nil)}
	ow.failures = logdedup.New(o.Log.Handler(), logdedup.Options{Period: failurePause, Key: failedRepo})
	ow.repos = recent.New[hub.RepoID](openRepos, idleRepo, func(r *ownedRepo) {
		r.close()
		<-ow.slots
	})
	ow.opening.Detached = func(id hub.RepoID) bool { // a long listing is read once
		_, ok := ow.started.Load(id)
		return ok
	}
	ow.ctx, ow.stop = context.WithCancel(context.Background())
	return ow
}

// Close closes all repositories. A request that still runs closes its own.
func (ow *Owner) Close() {
	ow.stop()
	ow.opening.Wait()
	ow.repos.Close()
	ow.failures.Close()
}

// routes returns the handler of all APIs. It is called once.
func (ow *Owner) routes(a Access) http.Handler {
	ow.access = a
	ow.none = hubserve.NewHandler(hubserve.HandlerOptions{Repos: failingRepos{hub.ErrRepoNotFound}, User: a.User})
	api := a.Require(http.HandlerFunc(ow.serveHub))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isCASPath(r.URL.Path) {
			ow.serveXet(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// serveHub answers a request to the Hub API.
func (ow *Owner) serveHub(w http.ResponseWriter, r *http.Request) {
	id, ok := hubserve.RepoOf(r.URL.EscapedPath())
	if !ok || !ow.has(id) || !clientMayRead(r.Context(), storeSymbols(id)...) {
		ow.none.ServeHTTP(w, r)
		return
	}
	it, err := ow.openRepo(r.Context(), id)
	if err != nil {
		hubserve.NewHandler(hubserve.HandlerOptions{Repos: failingRepos{err}}).ServeHTTP(w, r)
		return
	}
	defer ow.repos.Put(it)
	it.Value.api.ServeHTTP(w, r)
}

// serveXet answers a request to the CAS API. Its token or its URL leads to the repository.
func (ow *Owner) serveXet(w http.ResponseWriter, r *http.Request) {
	text, err := ow.o.Signer.Scope(r)
	if err != nil {
		casserve.Fail(w, err)
		return
	}
	s, _ := parseScope(text) // another text has no repository
	id := mirrorRepo(s.symbol)
	if !ow.has(id) {
		casserve.Fail(w, iofs.ErrPermission)
		return
	}
	it, err := ow.openRepo(r.Context(), id)
	switch {
	case isOfRepo(err):
		err = iofs.ErrPermission
	case errors.Is(err, iofs.ErrPermission): // of the token of the server, while that of the client is good
		err = origin.ErrUnavailable
	case err == nil && it.Value.xet == nil:
		ow.repos.Put(it)
		err = origin.ErrNotFound
	}
	if err != nil {
		casserve.Fail(w, err)
		return
	}
	defer ow.repos.Put(it)
	it.Value.xet.ServeHTTP(w, r)
}

// has reports whether the owner can have a repository.
func (ow *Owner) has(id hub.RepoID) bool {
	owner, name, ok := strings.Cut(id.Name, "/")
	return ok && owner == ow.o.Name && name != ""
}

// openRepo returns an open repository, which must be put back.
func (ow *Owner) openRepo(ctx context.Context, id hub.RepoID) (*recent.Item[hub.RepoID, *ownedRepo], error) {
	ctx, cancel := context.WithTimeout(ctx, openWait)
	defer cancel()
	for ctx.Err() == nil && ow.ctx.Err() == nil {
		if it := ow.repos.Find(id); it != nil {
			return it, nil
		}
		if err := ow.refusal(id); err != nil {
			return nil, err
		}
		_, err := ow.opening.Do(ctx, id, func(ctx context.Context) (struct{}, error) { return struct{}{}, ow.add(ctx, id) })
		if err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: the repository is not open yet", origin.ErrUnavailable) // or the server ends
}

// refusal returns why the Hub has just refused a repository.
func (ow *Owner) refusal(id hub.RepoID) error {
	ow.mu.Lock()
	defer ow.mu.Unlock()
	a, ok := ow.absent.Get(id)
	if !ok {
		return nil
	}
	if time.Now().After(a.until) {
		ow.absent.Remove(id)
		return nil
	}
	return a.err
}

// add opens a repository. Without a client it does not wait for a slot.
func (ow *Owner) add(ctx context.Context, id hub.RepoID) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ow.ctx, cancel)()
	if it := ow.repos.Find(id); it != nil { // another call was faster
		ow.repos.Put(it)
		return nil
	}
	if err := ow.takeSlot(ctx); err != nil {
		return err
	}
	ow.started.Store(id, nil)
	defer ow.started.Delete(id)
	site, closeSite, err := ow.o.Open(ctx, id)
	if err != nil {
		<-ow.slots
		return ow.refused(id, err)
	}
	r := &ownedRepo{api: hubserve.NewHandler(site.hubOptions(ow.access)), close: func() { site.Close(); closeSite() }}
	if site.Xet != nil {
		r.xet = site.Xet
	}
	ow.repos.Put(ow.repos.Add(id, r))
	return nil
}

// takeSlot waits for a slot. Without a free one it closes an unused repository, which would
// otherwise hold its slot until it is idle for long.
func (ow *Owner) takeSlot(ctx context.Context) error {
	for hasClosed := false; ; hasClosed = hasClosed || ow.repos.CloseUnused() {
		select {
		case ow.slots <- struct{}{}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(slotPoll):
		}
	}
}

// refused returns the error of a repository that cannot be opened. A refusal of the Hub counts for a
// while. A reason other than the repository is logged, but rarely.
func (ow *Owner) refused(id hub.RepoID, err error) error {
	ow.mu.Lock()
	defer ow.mu.Unlock()
	var refusal *hub.StatusError
	switch {
	case errors.As(err, &refusal):
		ow.absent.Remove(id)
		ow.absent.Add(id, absentRepo{refusal, time.Now().Add(absentAge)}, 1)
		if isOfRepo(refusal) {
			return refusal
		}
	case errors.Is(err, iofs.ErrPermission), isAbsent(err): // of a local file: clients must not see this kind
		err = errors.New(err.Error())
	}
	slog.New(ow.failures).Warn("a repository cannot be opened", "event", "repository_failed", "repository", id.Source(), "err", err)
	return err
}

// isOfRepo reports whether a refusal of the Hub is about the repository, and not about the token of the server.
func isOfRepo(err error) bool {
	return errors.Is(err, hub.ErrRepoNotFound) || errors.Is(err, hub.ErrRepoGated) || errors.Is(err, hub.ErrRevisionNotFound)
}

// failedRepo returns the repository of a line in the log.
func failedRepo(r slog.Record) (key string, limited bool) {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "repository" {
			key = a.Value.String()
		}
		return key == ""
	})
	return key, true
}

// failingRepos are repositories with one error.
type failingRepos struct{ err error }

var _ hubserve.Repos = failingRepos{}

// Resolve implements hubserve.Repos.
func (f failingRepos) Resolve(context.Context, hub.RepoID, string) (hubserve.Commit, error) {
	return nil, f.err
}

// Refs implements hubserve.Repos.
func (f failingRepos) Refs(context.Context, hub.RepoID) (branches, tags []hubserve.Ref, err error) {
	return nil, nil, f.err
}
