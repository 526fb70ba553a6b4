package hub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/codec"
)

// An Entry is a file or folder in a listing.
type Entry struct {
	Path    string // from the top of the repository, as the Hub sends it
	Dir     bool
	Size    int64      // bytes of a file
	Xet     codec.Hash // of a file in Xet; zero: not in Xet
	Git     *[20]byte  // SHA-1 of a file in git, with its header; nil: another kind of file
	SHA256  *[32]byte  // of a file in Xet or LFS; nil: unknown
	ModTime time.Time  // zero: unknown
}

// Bounds of a listing.
const (
	pageEntries = 1000
	maxPage     = 16 << 20 // bytes
	maxPages    = 20_000
	maxWindows  = 3       // in which a page is requested
	maxFile     = 1 << 50 // bytes; sums of sizes stay far from the limit of int64
)

// List yields the files and folders below dir in the order of the Hub, with one request for each
// 1,000 entries. The top is "". Without recursive, it yields those directly in dir. An error ends
// the listing.
func (r *Repo) List(ctx context.Context, commit, dir string, recursive bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		next := r.listURL(commit, dir, recursive)
		seen := map[[16]byte]bool{}
		for next != "" {
			sum := sha256.Sum256([]byte(next))
			key := [16]byte(sum[:])
			if seen[key] || len(seen) == maxPages {
				yield(Entry{}, codec.Corrupt("listing", int64(len(seen)), "the server returns page after page without an end"))
				return
			}
			seen[key] = true
			page, following, err := r.page(ctx, next, recursive)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for l, err := range decodePage(page) {
				var e Entry
				var ok bool
				if err == nil {
					e, ok, err = l.entry()
				}
				if (ok || err != nil) && (!yield(e, err) || err != nil) {
					return
				}
			}
			next = following
		}
	}
}

// listURL returns the path and query of the first page.
func (r *Repo) listURL(commit, dir string, recursive bool) string {
	a := r.current()
	path := a.repo().API() + "/tree"
	if a.Type != Bucket {
		path += "/" + url.PathEscape(commit)
	}
	if dir != "" {
		path += "/" + escapePath(dir)
	}
	return fmt.Sprintf("%s?recursive=%t&limit=%d", path, recursive, pageEntries)
}

// page returns the JSON of a page, and path and query of the next one; "": it is the last. An empty page
// is requested twice: git has no empty folders, and a wrong page would hide files.
func (r *Repo) page(ctx context.Context, path string, recursive bool) (page []byte, next string, err error) {
	for range 2 {
		if page, next, err = r.pageOnce(ctx, path, recursive); err != nil || !isEmptyPage(page) {
			break
		}
	}
	return page, next, err
}

func isEmptyPage(page []byte) bool { return bytes.Equal(bytes.TrimSpace(page), []byte("[]")) }

// pageOnce is page with one request. A recursive listing would begin anew after an error, so it waits for its
// place in the window of the Hub without a limit. It also does after a refusal.
func (r *Repo) pageOnce(ctx context.Context, path string, recursive bool) (page []byte, next string, err error) {
	q := r.request("listing", path)
	var header http.Header
	if recursive {
		q.Wait = nil
		page, header, err = r.getAcrossWindows(ctx, q, path)
	} else {
		page, header, err = r.get(ctx, q, maxPage)
	}
	if err != nil {
		return nil, "", err
	}
	next, err = r.nextPage(q.URL, header)
	return page, next, err
}

// getAcrossWindows is get for a page. If the Hub refuses it until the end of this window, the next request is in the
// next window.
func (r *Repo) getAcrossWindows(ctx context.Context, q fetch.Request, path string) (page []byte, header http.Header, err error) {
	for range maxWindows {
		if err = r.pacer.wait(ctx, path); err != nil {
			return nil, nil, err
		}
		page, header, err = r.get(ctx, q, maxPage)
		if hint := (*origin.HintError)(nil); !errors.Is(err, errNoMore) || !errors.As(err, &hint) || hint.Tries != 1 {
			break
		}
	}
	return page, header, err
}

// decodePage yields the entries of a page one by one: an entry may have two bytes in JSON and
// hundreds in memory. An error ends it.
func decodePage(b []byte) iter.Seq2[listEntry, error] {
	return func(yield func(listEntry, error) bool) {
		d := json.NewDecoder(bytes.NewReader(b))
		switch start, err := d.Token(); {
		case err != nil || start != json.Delim('['):
			yield(listEntry{}, notArray(b, err))
			return
		case !json.Valid(b):
			yield(listEntry{}, notJSON("the listing", errors.New("a syntax error")))
			return
		}
		for d.More() {
			var l listEntry
			err := d.Decode(&l)
			if err != nil {
				err = notJSON("the listing", err)
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// notArray returns the error of a page that does not begin as an array.
func notArray(b []byte, err error) error {
	switch {
	case bytes.Equal(bytes.TrimSpace(b), []byte("null")): // it is no empty list
		return codec.Corrupt("listing", 0, "it is null")
	case err == nil:
		err = errors.New("it is no array")
	}
	return notJSON("the listing", err)
}

// nextPage returns the address of the next page in a header, without the endpoint:
//
//	Link: <https://huggingface.co/api/models/o/n/tree/main?cursor=…>; rel="next"
func (r *Repo) nextPage(from string, header http.Header) (string, error) {
	for _, value := range header.Values("Link") {
		for link := range strings.SplitSeq(value, "<") { // no address has one
			address, parameters, _ := strings.Cut(link, ">")
			if !strings.Contains(parameters, `rel="next"`) && !strings.Contains(parameters, "rel=next") {
				continue
			}
			return r.inside(from, address)
		}
	}
	return "", nil
}

// inside returns a link without the endpoint. Mirrors leave links to the Hub itself in its answers: their
// next page is that of the mirror. A link to another server is an error, because it would receive the
// token.
func (r *Repo) inside(from, link string) (string, error) {
	base, err := url.Parse(from)
	if err != nil {
		return "", err
	}
	u, err := base.Parse(link)
	if err == nil {
		u.Fragment = ""
		for _, endpoint := range []string{r.endpoint.String(), DefaultEndpoint} {
			if path, ok := strings.CutPrefix(u.String(), endpoint); ok && strings.HasPrefix(path, "/api/") {
				return path, nil
			}
		}
	}
	return "", codec.Corrupt("listing", 0, "the next page is on another server")
}

// A listEntry is an entry in the JSON of the Hub. Buckets have a time for each file.
type listEntry struct {
	Type string // file or directory
	OID  string // git's name
	Size int64
	Path string
	LFS  *struct {
		OID  string // SHA-256
		Size int64  // of the content
	}
	XetHash    string
	LastCommit *struct{ Date string }
	MTime      string
	UploadedAt string
}

// entry checks an entry. ok is false for what a mount cannot show: submodules of git, and unknown types.
func (l *listEntry) entry() (e Entry, ok bool, err error) {
	if l.Path == "" { // without the entry, the listing would look complete
		return e, false, codec.Corrupt("listing", 0, "an entry without a path")
	}
	e = Entry{Path: l.Path, Size: l.Size, ModTime: l.time()}
	switch l.Type {
	case "directory":
		e.Dir, e.Size = true, 0
		return e, true, nil
	case "file":
		return e, true, l.content(&e)
	case "":
		return e, false, codec.Corrupt("listing", 0, "%.100q: no type", l.Path)
	}
	return e, false, nil
}

// content sets size and hashes of a file. The size beside lfs may be that of the pointer. An empty file
// needs no hash: buckets have none for it.
func (l *listEntry) content(e *Entry) (err error) {
	bad := func(reason string, args ...any) error {
		return codec.Corrupt("listing", 0, "%.100q: %s", l.Path, fmt.Sprintf(reason, args...))
	}
	if l.LFS != nil {
		e.Size, e.SHA256 = l.LFS.Size, new([32]byte)
		if !decodeHex(e.SHA256[:], l.LFS.OID) || e.Size == 0 && *e.SHA256 != sha256.Sum256(nil) {
			return bad("SHA-256 %.80q of %d bytes", l.LFS.OID, e.Size)
		}
	}
	if l.XetHash != "" {
		if e.Xet, err = codec.ParseHash(l.XetHash); err != nil || e.Xet.IsZero() != (e.Size == 0) {
			return bad("Xet hash %.80q of %d bytes", l.XetHash, e.Size)
		}
	} else if l.LFS == nil && (e.Size != 0 || l.OID != "") {
		e.Git = new([20]byte)
		if !decodeHex(e.Git[:], l.OID) {
			return bad("git hash %.80q", l.OID)
		}
	}
	if e.Size < 0 || e.Size > maxFile {
		return bad("%d bytes", e.Size)
	}
	return nil
}

// decodeHex fills b with the bytes of a text.
func decodeHex(b []byte, text string) bool {
	got, err := hex.DecodeString(text)
	return err == nil && copy(b, got) == len(b) && len(got) == len(b)
}

// time returns the time of the last change; zero: unknown.
func (l *listEntry) time() time.Time {
	texts := []string{l.MTime, l.UploadedAt}
	if l.LastCommit != nil {
		texts = append(texts, l.LastCommit.Date)
	}
	for _, text := range texts {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			return t
		}
	}
	return time.Time{}
}
