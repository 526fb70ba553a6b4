package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/s3"
	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// IsAddress reports whether SOURCE is the address of a remote store, not the path of a folder.
func IsAddress(source string) bool {
	scheme, _, ok := strings.Cut(source, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")) || isBucket(source) || IsHub(source)
}

// isBucket reports whether SOURCE is the address of a bucket.
func isBucket(source string) bool { return strings.HasPrefix(source, s3.Scheme) }

// A Remote tunes a store that is not local.
type Remote struct {
	Getenv       func(name string) string // environment with the configuration of buckets and tokens; nil: empty
	CacheDir     string                   // folder of all caches; "": nothing is stored between runs
	SingleWriter bool                     // no other process writes to the bucket
	KeepDeleted  bool                     // a repository that the Hub has deleted shows the version of an earlier process
	Limits       fetch.Limits             // zero: the usual ones
	Counters     *fetch.Counters          // of all requests; nil: not reported
	Log          *slog.Logger             // nil: no log
	Note         func(text string)        // receives texts for the user; nil: no call
}

// getenv returns a variable of the environment.
func (r Remote) getenv(name string) string {
	if r.Getenv == nil {
		return ""
	}
	return r.Getenv(name)
}

// remoteRequests is the limit of parallel requests to a remote store.
const remoteRequests = 48

// scope returns the name of a store for cached metadata. A bucket has one name at many servers.
func scope(source string, s ReadStore) string {
	if b, ok := s.(*s3.Store); ok {
		return b.URL()
	}
	return strings.TrimRight(source, "/")
}

// The limits of a command that reads from a remote store.
const (
	firstLimit = 30 * time.Second
	ReadLimit  = time.Minute
)

// ErrNoObjects is the error of a SOURCE that has files without shards and xorbs.
var ErrNoObjects = errors.New("a repository of the Hub has no shards and xorbs; mount it, or use xetfs ls and cat")

// CheckObjects returns ErrNoObjects for the address of such a SOURCE.
func CheckObjects(source string) error {
	if IsHub(source) {
		return ErrNoObjects
	}
	return nil
}

// NamesSymbol reports whether SOURCE names its only symbol, so that no argument does.
func NamesSymbol(source string) bool { return IsHub(source) }

// ServerOf returns the address of the server of a remote SOURCE, maybe with a path. It is empty if
// the environment does not name it.
func ServerOf(source string, getenv func(name string) string) string {
	switch {
	case IsHub(source):
		return cmp.Or(getenv("HF_ENDPOINT"), hub.DefaultEndpoint)
	case isBucket(source):
		return cmp.Or(getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL"))
	}
	return source
}

// OpenRemote opens the store at an address for reading. It sends no request yet.
func OpenRemote(address string, r Remote) (ReadStore, error) {
	if err := checkAddress(address); err != nil {
		return nil, err
	}
	if err := CheckObjects(address); err != nil {
		return nil, ArgumentError{fmt.Errorf("%s: %w", address, err)}
	}
	if !isBucket(address) {
		return openWeb(address, r)
	}
	s, err := openBucket(address, r)
	if err != nil {
		return nil, err // without a nil pointer in the interface
	}
	return s, nil
}

// limits returns the limits of calls.
func (r Remote) limits() fetch.Limits {
	l := r.Limits
	if l.First == 0 {
		l.First = firstLimit
	}
	if l.Read == 0 {
		l.Read = ReadLimit
	}
	return l
}

// WaitingFor returns the notice of a command that waits for its SOURCE.
func WaitingFor(source, reason string) string {
	return "waiting for " + WithoutSecrets(source) + ": " + reason
}

// checkAddress returns an error for an invalid address. A valid address may be printed.
func checkAddress(address string) error {
	check := web.Check
	switch {
	case isBucket(address):
		check = s3.Check
	case IsHub(address):
		check = checkHub
	}
	if err := check(address); err != nil {
		return ArgumentError{fmt.Errorf("%s: %w", WithoutSecrets(address), err)}
	}
	return nil
}

// isScheme reports whether a text may precede the colon of an address.
func isScheme(text string) bool {
	for i := range len(text) {
		c := text[i] | 0x20
		if ('a' > c || c > 'z') && (i == 0 || strings.IndexByte("+-.0123456789", text[i]) < 0) {
			return false
		}
	}
	return text != ""
}

// WithoutSecrets returns an address without password, query and fragment. An address that
// cannot be parsed may contain a password with special characters. In that case everything
// before the last @ is dropped. The path of a folder is returned as it is.
func WithoutSecrets(address string) string {
	if strings.HasPrefix(address, "/") || !strings.Contains(address, ":") {
		return address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || strings.Contains(u.RawQuery+u.Fragment, "@") {
		scheme, rest, _ := strings.Cut(address, ":")
		rest = strings.TrimLeft(rest[strings.LastIndexByte(rest, '@')+1:], "/")
		address = scheme + "://" + rest
	} else {
		address = u.Scheme + "://" + u.Host + u.EscapedPath()
	}
	address, _, _ = strings.Cut(address, "?")
	address, _, _ = strings.Cut(address, "#")
	return address
}

// isBareRemote reports whether a remote store is read without a catalog. Such a store
// must have a listing, or list its objects.
func isBareRemote(ctx context.Context, s origin.Store, bare bool) (bool, error) {
	if !bare {
		is, err := catalog.Exists(ctx, s)
		if is || err != nil {
			return false, err
		}
	}
	for _, err := range s.List(ctx, names.ShardPrefix, "") {
		if errors.Is(err, errors.ErrUnsupported) {
			return false, fmt.Errorf("no store: neither a catalog nor the file %s of xetfs pack and publish; type the address of the folder of a store", listing.Key)
		}
		return err == nil, err
	}
	_, err := s.Size(ctx, listing.Key)
	if errors.Is(err, origin.ErrNotFound) {
		return false, errNoStore
	}
	return err == nil, err
}

// CheckRanges refuses a web server that ignores ranges, because each read of a mount would
// fail. Other errors are left to the reads.
func CheckRanges(ctx context.Context, s ReadStore, bare bool) error {
	k := names.SettingsKey()
	if bare {
		k = listing.Key
	}
	w, ok := s.(origin.RangeChecker)
	if !ok {
		return nil
	}
	if err := w.CheckRanges(ctx, k); errors.Is(err, origin.ErrNoRanges) {
		return MountError{err}
	}
	return nil
}

// openToRead opens the catalog of a folder or an address for reading.
func openToRead(source string, r Remote) (ReadStore, error) {
	if IsAddress(source) {
		return OpenRemote(source, r)
	}
	return OpenKeys(source, r)
}

// IsSame reports whether two spellings of a SOURCE name the same one.
func IsSame(a, b string) bool {
	if IsAddress(a) || IsAddress(b) {
		return spellAddress(a) == spellAddress(b)
	}
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// spellAddress returns an address with scheme and host in lower case, and without a slash at its end.
func spellAddress(source string) string {
	scheme, rest, _ := strings.Cut(source, "://")
	host, path, _ := strings.Cut(rest, "/")
	if scheme = strings.ToLower(scheme); scheme == "http" || scheme == "https" {
		host = strings.ToLower(host)
	}
	return scheme + "://" + host + "/" + strings.TrimRight(path, "/")
}

// AbsSource returns an absolute path, or an address unchanged.
func AbsSource(source string) (string, error) {
	if IsAddress(source) {
		return source, nil
	}
	if err := checkLocal(source); err != nil {
		return "", err
	}
	return filepath.Abs(source)
}
