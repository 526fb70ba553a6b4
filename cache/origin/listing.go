package origin

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// ListingKey is the key of the listing of a store.
const ListingKey names.Key = "xetfs.list"

// MaxListing is the most bytes a listing may have: some 500,000 objects.
const MaxListing = names.MaxLongDocument

// A Listing names the objects of a store, for readers that cannot list the store. A plain web
// server, for example, serves files by name and lists no names. A writer of the store writes
// the listing again after everything else is durable. The listing may therefore be older than
// the store: objects may be missing in it, and listed objects may be deleted.
//
//	{"format":1,"prefixes":["sl/","tdata/shard/","tdata/xorb/","tref/","vref/"]}
//	sl/*sSt*__add__*1*1700000000000000000*af13…*org!2Fmodel*_v2_ 0 1700000000000000000
//	tdata/shard/07/0706….shard 12345 1700000000000000000
//	tdata/xorb/3f/3fa1….xorb 67108864 1700000000000000000 old/models/b%20c.xorb
//	…
//	9f86d081…  64 hex digits, BLAKE3 of all before it but the last newline
//
// The first line has at most 64 KiB and names the listed prefixes. Readers treat an object
// under such a prefix as absent if no line names it. Each other line has the key of an object,
// its size in bytes, and its time of change in nanoseconds since 1970. The path follows if the
// key does not name the file of the object. It is escaped as in a URL. Lines are sorted by key.
//
// A Listing is immutable, and safe for concurrent use.
type Listing struct {
	prefixes []string
	lines    []byte // all whole, checked
}

// A Listed is an Item of a listing with its path.
type Listed struct {
	Item
	Path string // escaped for a URL; "": its key says so
}

// listingHead is the first line of a listing.
type listingHead struct {
	Format   int      `json:"format"`
	Prefixes []string `json:"prefixes"`
}

// maxListingHead is the most bytes of the first line: JSON takes many times as much memory.
const maxListingHead = 64 << 10

// ListingPrefixes are those that writers list: what readers ask for by prefix. Index
// pages and versions are found by their keys.
func ListingPrefixes() []string {
	return []string{names.SymbolPrefix, names.ShardPrefix, names.XorbPrefix, names.SnapshotPrefix, names.RefPrefix}
}

// EncodeListing returns the bytes of a listing. The objects must be sorted by key, and each
// must begin with one of the prefixes. Xorbs and their prefix are left out if the listing would
// exceed MaxListing, because no reader of files lists xorbs. A listing that still exceeds
// MaxListing is an error.
func EncodeListing(prefixes []string, objects iter.Seq2[Listed, error]) ([]byte, error) {
	var lines []byte
	var xorbs [2]int // where they begin and end in lines
	for o, err := range objects {
		if err != nil {
			return nil, err
		}
		from := len(lines)
		lines = appendListed(lines, o)
		if strings.HasPrefix(string(o.Key), names.XorbPrefix) {
			if xorbs[1] == 0 {
				xorbs[0] = from
			}
			xorbs[1] = len(lines)
		}
	}
	b, err := sealListing(prefixes, lines)
	if err == nil && len(b) > MaxListing {
		few := slices.DeleteFunc(slices.Clone(prefixes), func(p string) bool { return p == names.XorbPrefix })
		b, err = sealListing(few, slices.Concat(lines[:xorbs[0]], lines[xorbs[1]:]))
	}
	if err == nil && len(b) > MaxListing {
		return nil, fmt.Errorf("listing: %d bytes, at most %d are allowed", len(b), MaxListing)
	}
	return b, err
}

func appendListed(b []byte, o Listed) []byte {
	b = append(b, o.Key...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, o.Size, 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, max(0, o.Modified.UnixNano()), 10)
	if o.Path != "" {
		b = append(append(b, ' '), o.Path...)
	}
	return append(b, '\n')
}

func sealListing(prefixes []string, lines []byte) ([]byte, error) {
	prefixes = slices.Sorted(slices.Values(prefixes))
	head, err := json.Marshal(listingHead{Format: 1, Prefixes: prefixes})
	if err != nil {
		return nil, err
	}
	b := slices.Concat(head, []byte{'\n'}, lines)
	sum := page.Sum(b[:len(b)-1])
	return append(hex.AppendEncode(b, sum[:]), '\n'), nil
}

// DecodeListing reads a listing, the checksum first. Errors are names.ErrNewer or
// codec.ErrCorrupt. The listing keeps b.
func DecodeListing(b []byte) (*Listing, error) {
	const sumLine = 2*len(page.Hash{}) + 1
	if len(b) > MaxListing {
		return nil, badListing(MaxListing, "%d bytes, at most %d are allowed", len(b), MaxListing)
	}
	body := len(b) - sumLine
	if body < 1 || b[body-1] != '\n' || b[len(b)-1] != '\n' {
		return nil, badListing(len(b), "no line with a checksum at the end")
	}
	sum := page.Sum(b[:body-1])
	if want := hex.EncodeToString(sum[:]); string(b[body:len(b)-1]) != want {
		return nil, badListing(body, "checksum %q, want %s", b[body:len(b)-1], want)
	}
	head, lines, _ := bytes.Cut(b[:body], []byte{'\n'})
	if len(head) > maxListingHead {
		return nil, badListing(maxListingHead, "its first line has %d bytes, at most %d are allowed", len(head), maxListingHead)
	}
	l := &Listing{lines: lines}
	if err := l.readHead(head); err != nil {
		return nil, err
	}
	return l, l.check(len(head) + 1)
}

func (l *Listing) readHead(head []byte) error {
	var h listingHead
	err := json.Unmarshal(head, &h)
	switch {
	case err != nil:
		return badListing(0, "%v", err)
	case h.Format > 1:
		return fmt.Errorf("listing of format %d: %w", h.Format, names.ErrNewer)
	case h.Format < 1:
		return badListing(0, "format %d is not known", h.Format)
	}
	l.prefixes = h.Prefixes
	return nil
}

// check checks every line; the first is at byte off of the listing.
func (l *Listing) check(off int) error {
	var before []byte
	for line := range bytes.Lines(l.lines) {
		o, reason := parseListed(line[:len(line)-1])
		if reason == "" && string(o.Key) <= string(before) {
			reason = "its key does not sort after the one before"
		}
		if reason != "" {
			return badListing(off, "line %.100q: %s", line, reason)
		}
		before = line[:len(o.Key)]
		off += len(line)
	}
	return nil
}

func badListing(off int, format string, args ...any) error {
	return codec.Corrupt("listing", int64(off), format, args...)
}

// parseListed reads one line, or returns the reason why it is bad. Unknown keys are good,
// because a newer writer may have put them.
func parseListed(line []byte) (o Listed, reason string) {
	if bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
		return o, "it holds bytes that no key has"
	}
	f := strings.SplitN(string(line), " ", 5)
	if len(f) != 3 && len(f) != 4 || f[0] == "" {
		return o, "it is not a key, a size, a time and maybe a path"
	}
	size, err := parseListedNumber(f[1])
	modified, err2 := parseListedNumber(f[2])
	if err != nil || err2 != nil {
		return o, "size or time is not a number"
	}
	o.Item = Item{Key: names.Key(f[0]), Size: size, Modified: time.Unix(0, modified)}
	if len(f) == 4 {
		o.Path = f[3]
		plain, err := url.PathUnescape(o.Path)
		if err != nil || !fs.ValidPath(plain) || plain == "." {
			return o, "its path is not one below the store"
		}
	}
	return o, ""
}

// parseListedNumber reads a number that is written in one way only.
func parseListedNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && strconv.FormatInt(n, 10) != text || n < 0 {
		err = errors.New("not a plain number")
	}
	return n, err
}

// EscapePath returns a slash path as a listing has it.
func EscapePath(path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// Covers reports whether every object that begins with prefix is listed.
func (l *Listing) Covers(prefix string) bool {
	return slices.ContainsFunc(l.prefixes, func(p string) bool { return strings.HasPrefix(prefix, p) })
}

// List yields the objects whose keys start with prefix and sort after a given one, as
// Store.List does. It yields errors.ErrUnsupported for a prefix that is not listed.
func (l *Listing) List(prefix string, after names.Key) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		if !l.Covers(prefix) {
			yield(Listed{}, fmt.Errorf("the listing does not have %q: %w", prefix, errors.ErrUnsupported))
			return
		}
		from := prefix
		if string(after) >= from {
			from = string(after) + "\x00"
		}
		for line := range bytes.Lines(l.lines[l.search(from):]) {
			o, _ := parseListed(line[:len(line)-1]) // it was checked
			if !strings.HasPrefix(string(o.Key), prefix) || !yield(o, nil) {
				return
			}
		}
	}
}

// Find returns one object.
func (l *Listing) Find(k names.Key) (Listed, bool) {
	line, _, found := bytes.Cut(l.lines[l.search(string(k)):], []byte{'\n'})
	if !found {
		return Listed{}, false
	}
	o, reason := parseListed(line)
	return o, reason == "" && o.Key == k
}

// search returns where the first line begins whose key is not below a given one.
func (l *Listing) search(key string) int {
	lo, hi := 0, len(l.lines) // both at the beginning of a line, or at the end
	for lo < hi {
		mid := lo + (hi-lo)/2
		mid = bytes.LastIndexByte(l.lines[:mid], '\n') + 1 // not before lo, which begins a line
		end := mid + bytes.IndexByte(l.lines[mid:], '\n') + 1
		line, _, _ := bytes.Cut(l.lines[mid:end], []byte{' '})
		if string(line) < key {
			lo = end
		} else {
			hi = mid
		}
	}
	return lo
}

// ListPrefixes yields the objects of a store under some prefixes, sorted, for EncodeListing. It
// leaves out unknown keys and ends after the first error.
func ListPrefixes(ctx context.Context, s Store, prefixes []string) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		for _, prefix := range slices.Sorted(slices.Values(prefixes)) {
			for item, err := range s.List(ctx, prefix, "") {
				if _, bad := names.ParseKey(item.Key); err == nil && bad != nil {
					continue
				}
				if !yield(Listed{Item: item}, err) || err != nil {
					return
				}
			}
		}
	}
}
