package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/cache/origin/wrap"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// IsWeb reports whether SOURCE is the address of a web server.
func IsWeb(source string) bool {
	scheme, _, ok := strings.Cut(source, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// webRequests is the limit of parallel requests to a web server.
const webRequests = 48

// A webStore is the store at an address, with retries.
type webStore struct {
	origin.Store
	web *web.Store
}

var (
	_ origin.PartReader     = webStore{}
	_ origin.ProgressReader = webStore{}
	_ origin.WholeReader    = webStore{}
)

// Close closes idle connections.
func (s webStore) Close() error { return s.web.Close() }

// ReadPart implements origin.PartReader.
func (s webStore) ReadPart(ctx context.Context, k names.Key, off int64, n int) (origin.Part, error) {
	return s.Store.(origin.PartReader).ReadPart(ctx, k, off, n)
}

// ReadWhole implements origin.WholeReader.
func (s webStore) ReadWhole(ctx context.Context, k names.Key, off int64, take func(b []byte, size int64) error) error {
	return s.Store.(origin.WholeReader).ReadWhole(ctx, k, off, take)
}

// ReadAtProgress implements origin.ProgressReader.
func (s webStore) ReadAtProgress(ctx context.Context, k names.Key, p []byte, off int64, came func(n int)) error {
	return s.Store.(origin.ProgressReader).ReadAtProgress(ctx, k, p, off, came)
}

// The limits of a command that reads from a web server.
const (
	firstLimit = 30 * time.Second
	ReadLimit  = time.Minute
)

// OpenWeb opens the store at an address. It sends no request yet.
func OpenWeb(address string, log *slog.Logger, limits wrap.Limits) (ReadStore, error) {
	if err := checkAddress(address); err != nil {
		return nil, err
	}
	s, err := web.Open(address, web.Options{})
	if err != nil {
		return nil, err
	}
	if limits.First == 0 {
		limits.First = firstLimit
	}
	if limits.Read == 0 {
		limits.Read = ReadLimit
	}
	return webStore{wrap.RetryStore(s, wrap.RetryPolicy{Logger: log, Limits: limits}), s}, nil
}

func WaitingFor(source string) string { return "waiting for " + WithoutSecrets(source) }

// checkAddress returns an error for an invalid address. A valid address may be printed.
func checkAddress(address string) error {
	if err := web.Check(address); err != nil {
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
// before the last @ is dropped.
func WithoutSecrets(address string) string {
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

// isBareWeb reports whether a store on a web server is read without a catalog. Such a store
// must have a listing.
func isBareWeb(ctx context.Context, s origin.Store, bare bool) (bool, error) {
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
		if err != nil {
			return false, err
		}
		break
	}
	return true, nil
}

// CheckRanges refuses a web server that ignores ranges, because each read of a mount would
// fail. Other errors are left to the reads.
func CheckRanges(ctx context.Context, s ReadStore, bare bool) error {
	k := names.SettingsKey()
	if bare {
		k = listing.Key
	}
	if err := s.(webStore).web.CheckRanges(ctx, k); errors.Is(err, web.ErrNoRanges) {
		return MountError{err}
	}
	return nil
}

// openToRead opens the catalog of a folder or an address for reading. waiting is that of
// wrap.Limits.
func openToRead(folder string, waiting func()) (ReadStore, error) {
	if IsWeb(folder) {
		return OpenWeb(folder, nil, wrap.Limits{Waiting: waiting})
	}
	if err := CheckStore(folder); err != nil {
		return nil, err
	}
	return dir.OpenReadOnly(folder)
}

// AbsSource returns an absolute path, or an address unchanged.
func AbsSource(source string) (string, error) {
	if IsWeb(source) {
		return source, nil
	}
	if err := CheckLocal(source); err != nil {
		return "", err
	}
	return filepath.Abs(source)
}
