package web

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// Options tune a Store. The zero value is right.
type Options struct {
	fetch.Options

	// Authorization returns the header Authorization for the server of the store; "": none. It
	// is called for the first request and after a 401. The header is only sent to that server,
	// and only over https or to this machine. nil: no header.
	Authorization func() (string, error)
}

// A Store reads objects from a plain web server with ranged GETs. It cannot write.
type Store struct {
	base        string // escaped, ends with a slash
	client      *fetch.Client
	credentials *credentials
	listing     lastListing
}

var (
	_ origin.Store          = (*Store)(nil)
	_ origin.PartReader     = (*Store)(nil)
	_ origin.ProgressReader = (*Store)(nil)
	_ origin.WholeReader    = (*Store)(nil)
)

// A lastListing is the newest listing of the store that was read.
type lastListing struct {
	mu    sync.Mutex
	l     *listing.Listing  // nil: none yet; guarded by mu
	tag   origin.Tag        // guarded by mu
	parts map[string][]byte // lines of parts of l that were read; guarded by mu
}

// Open returns the store at an address with scheme http or https, which names the folder of
// the store. It sends no request yet.
func Open(address string, o Options) (*Store, error) {
	if err := Check(address); err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	c := newCredentials(o)
	o.Classify = c.classify
	return &Store{base: strings.TrimSuffix(u.String(), "/") + "/", client: fetch.New(u, o.Options), credentials: c}, nil
}

// Check returns the problem of an address, or nil. The error does not repeat the address, which
// may hold secrets. A good address holds none.
func Check(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("it is no address of a web server")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%q is not http or https", u.Scheme)
	case u.Host == "" || u.Hostname() == "":
		return errors.New("it names no host")
	case u.User != nil:
		return errors.New("it holds a name or a password, which everybody could see in the list of processes")
	case !isPort(u.Port()):
		return errors.New("its port is not a number up to 65535")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("it has a query or a fragment; remove everything after the path")
	}
	return nil
}

func isPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// Close closes the idle connections.
func (s *Store) Close() error {
	s.client.Close()
	return nil
}

// Local implements origin.Source: each request crosses the network.
func (s *Store) Local() bool { return false }

// String returns the address of the store.
func (s *Store) String() string { return s.base }

// request returns the request for the object at an escaped path.
func (s *Store) request(k names.Key, path string) fetch.Request {
	isData := strings.HasPrefix(string(k), names.XorbPrefix) || strings.HasPrefix(string(k), names.ShardPrefix)
	return fetch.Request{Key: k, URL: s.base + path, Names: !isData, Prepare: s.credentials.prepare}
}

// find calls fn with the request for an object. A shard or xorb that is not found at the path
// of its key is looked up in the listing once.
func (s *Store) find(ctx context.Context, k names.Key, fn func(fetch.Request) error) error {
	path, err := s.pathOf(k)
	if err != nil {
		return err
	}
	err = fn(s.request(k, path))
	if errors.Is(err, origin.ErrNotFound) && s.elsewhere(ctx, k, path) {
		if path, err = s.pathOf(k); err == nil {
			err = fn(s.request(k, path))
		}
	}
	if err == nil || errors.Is(err, origin.ErrNotFound) || errors.Is(err, origin.ErrUnchanged) {
		s.credentials.accept()
	}
	return err
}

// pathOf returns the escaped path of an object below the base.
func (s *Store) pathOf(k names.Key) (string, error) {
	if k == listing.Key || strings.HasPrefix(string(k), listing.PartsFolder) {
		return string(k), nil
	}
	if _, err := names.ParseKey(k); err != nil {
		return "", fmt.Errorf("%q: %w: it is no key", k, origin.ErrNotFound)
	}
	s.listing.mu.Lock()
	l := s.listing.l
	s.listing.mu.Unlock()
	if l != nil {
		if o, ok := l.Find(k); ok && o.Path != "" {
			return o.Path, nil
		}
	}
	return escape(string(k)), nil
}

// escape spells a key as a path. It escapes more bytes than necessary: see the package.
func escape(key string) string {
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, len(key)+16)
	for i := range len(key) {
		switch c := key[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("._-/", c) >= 0:
			b = append(b, c)
		default:
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(b)
}

// elsewhere reports whether the listing has another path for an object. It loads the listing if
// that was not done before.
func (s *Store) elsewhere(ctx context.Context, k names.Key, path string) bool {
	p, err := names.ParseKey(k)
	if err != nil || p.Kind != names.ShardKind && p.Kind != names.XorbKind {
		return false
	}
	s.listing.mu.Lock()
	known := s.listing.l != nil
	s.listing.mu.Unlock()
	if known {
		return false // pathOf used it
	}
	l, err := s.newestListing(ctx)
	if err != nil {
		return false
	}
	o, ok := l.Find(k)
	return ok && o.Path != "" && o.Path != path
}
