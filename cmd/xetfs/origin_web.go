package main

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
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// isWeb says whether SOURCE is the address of a store on a web server.
func isWeb(source string) bool {
	scheme, _, ok := strings.Cut(source, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// webRequests is how many chunks are asked of a web server at once.
const webRequests = 48

// A webStore is the store at an address, asked again where it does not answer.
type webStore struct {
	origin.Store
	web *web.Store
}

var (
	_ origin.PartReader     = webStore{}
	_ origin.ProgressReader = webStore{}
	_ origin.WholeReader    = webStore{}
)

// Close gives the connections back.
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

// The limits of a command that reads from a web server, unless it has others.
const (
	firstLimit = 30 * time.Second
	readLimit  = time.Minute
)

// openWeb opens the store at an address. It asks nothing yet.
func openWeb(address string, log *slog.Logger, limits wrap.Limits) (readStore, error) {
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
		limits.Read = readLimit
	}
	return webStore{wrap.RetryStore(s, wrap.RetryPolicy{Logger: log, Limits: limits}), s}, nil
}

func waitingFor(source string) string { return "waiting for " + withoutSecrets(source) }

// checkAddress says what is wrong with an address. One that is good can be shown.
func checkAddress(address string) error {
	if err := web.Check(address); err != nil {
		return ArgumentError{fmt.Errorf("%s: %w", withoutSecrets(address), err)}
	}
	return nil
}

// isScheme says whether a text may stand before the colon of an address.
func isScheme(text string) bool {
	for i := range len(text) {
		c := text[i] | 0x20
		if ('a' > c || c > 'z') && (i == 0 || strings.IndexByte("+-.0123456789", text[i]) < 0) {
			return false
		}
	}
	return text != ""
}

// withoutSecrets is an address as it may be shown: without a password or what stands
// behind the path. One that makes no sense may be so because of what a password holds, so
// of that nothing is shown that stands before an @.
func withoutSecrets(address string) string {
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

// isBareWeb says whether a store on a web server is to be read without its catalog, which
// it may not have. Then it must have a listing.
func isBareWeb(ctx context.Context, s origin.Store, bare bool) (bool, error) {
	if !bare {
		is, err := catalog.Exists(ctx, s)
		if is || err != nil {
			return false, err
		}
	}
	for _, err := range s.List(ctx, names.ShardPrefix, "") {
		if errors.Is(err, errors.ErrUnsupported) {
			return false, fmt.Errorf("there is no store: neither a catalog nor the file %s, which xetfs pack and publish write; the address is that of the folder of a store", origin.ListingKey)
		}
		if err != nil {
			return false, err
		}
		break
	}
	return true, nil
}

// checkRanges refuses a web server that ignores ranges: each read of a mount would be an
// input/output error. Other errors are left to the reads.
func checkRanges(ctx context.Context, s readStore, bare bool) error {
	k := names.SettingsKey()
	if bare {
		k = origin.ListingKey
	}
	if err := s.(webStore).web.CheckRanges(ctx, k); errors.Is(err, web.ErrNoRanges) {
		return MountError{err}
	}
	return nil
}

// openToRead opens the catalog in a folder, or at an address, to look at it. waiting is
// that of wrap.Limits.
func openToRead(folder string, waiting func()) (readStore, error) {
	if isWeb(folder) {
		return openWeb(folder, nil, wrap.Limits{Waiting: waiting})
	}
	if err := checkStore(folder); err != nil {
		return nil, err
	}
	return dir.OpenReadOnly(folder)
}

// absSource makes a path absolute, and leaves an address as it is.
func absSource(source string) (string, error) {
	if isWeb(source) {
		return source, nil
	}
	if err := checkLocal(source); err != nil {
		return "", err
	}
	return filepath.Abs(source)
}
