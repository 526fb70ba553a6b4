package serve

import (
	"net/http"
	"strings"

	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
	"github.com/xetfs/xetfs/cache/origin/hub/hubwrite"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// StorePath is the path of the plain layout in a Site.
const StorePath = "/-/store/"

// A Site serves several APIs on one address.
//
//	/-/store/KEY            the plain layout, for mounts of the whole store
//	/KEY                    the same, for mounts of the address alone
//	/v1/…, /v2/…            the CAS API, except files of owners with these names; also old paths of plans
//	all others              the Hub API
//
// Without Repos it serves the plain layout alone, at the top. The plain layout and the statistics
// need a token for everything. The CAS API checks tokens of its own, which the Hub API makes.
type Site struct {
	Repos   hubserve.Repos // nil: only the plain layout
	Content Content
	Xet     *Xet    // nil: no CAS API
	Writer  *Writer // nil: the store is read-only
	Plain   http.Handler
	Owner   *Owner // instead of all above but Plain; nil: none
	Access  Access

	Report func(r *http.Request, err error) // of hubserve.HandlerOptions
}

// Handler returns the handler of the site, which counts requests. Wrap adds faults to all
// answers but the statistics.
func (s *Site) Handler(count *Counter, wrap func(http.Handler) http.Handler) http.Handler {
	plain := s.Access.RequireAll(count.Handler(wrap(s.Plain), s.route)) // with the statistics
	if s.Repos == nil && s.Owner == nil {
		return plain
	}
	all := count.Handler(wrap(s.routes()), s.route)
	cas := withReasons(all)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch route := s.route(r.URL.Path); {
		case r.URL.Path == StatsPath:
			plain.ServeHTTP(w, r)
		case route == routeCAS, route == routeXorbs:
			cas.ServeHTTP(w, r)
		default:
			all.ServeHTTP(w, r)
		}
	})
}

// routes returns the handler of all APIs.
func (s *Site) routes() http.Handler {
	if s.Owner != nil {
		return s.Owner.routes(s.Access)
	}
	open := hubserve.NewHandler(s.hubOptions(s.Access))
	api := s.Access.Require(open)
	plain := s.Access.RequireAll(s.Plain)
	below := http.StripPrefix(strings.TrimSuffix(StorePath, "/"), plain)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch route := s.route(r.URL.Path); {
		case route == routeStore && strings.HasPrefix(r.URL.Path, StorePath):
			below.ServeHTTP(w, r)
		case route == routeStore:
			plain.ServeHTTP(w, r)
		case route == routeCAS, route == routeXorbs:
			s.Xet.ServeHTTP(w, r)
		case r.Method == http.MethodPut && strings.Contains(r.URL.Path, objectsPath):
			open.ServeHTTP(w, r) // the address has a token
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// objectsPath is a part of the address of an upload by LFS, which is signed.
const objectsPath = ".git/info/lfs/objects/"

// Close ends the site before its SOURCE is closed. No request may run.
func (s *Site) Close() {
	if s.Content.Mirror != nil {
		s.Content.Mirror.Close()
	}
}

// hubOptions returns the options of the Hub API.
func (s *Site) hubOptions(a Access) hubserve.HandlerOptions {
	o := hubserve.HandlerOptions{Repos: s.Repos, Content: s.Content, User: a.User, Private: a.file != nil, Report: s.Report}
	if s.Xet != nil {
		o.Tokens = s.Xet
	}
	if s.Writer != nil {
		o.Writes = hubwrite.NewHandler(hubwrite.Options{Repos: s.Writer, Private: o.Private})
	}
	return o
}

// route returns the route of a path.
func (s *Site) route(path string) route {
	hasXet := s.Xet != nil || s.Owner != nil
	switch {
	case s.Repos == nil && s.Owner == nil:
		return routeStore
	case hasXet && strings.HasPrefix(path, transferPath):
		return routeXorbs
	case hasXet && isCASPath(path):
		return routeCAS
	case s.Owner == nil && (strings.HasPrefix(path, StorePath) || isStorePath(path)):
		return routeStore
	}
	return routeHub
}

// isStorePath reports whether a path is the key of an object in a store.
func isStorePath(p string) bool {
	k := names.Key(strings.TrimPrefix(p, "/"))
	_, err := names.ParseKey(k)
	return err == nil || k == listing.Key
}
