package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/codec/journal"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A format has the functions for one kind of file. Their size is that of the file.
type format struct {
	name     string
	describe func(w io.Writer, b []byte) error
	check    func(r io.ReaderAt, size int64) error              // the first damage
	json     func(w io.Writer, r io.ReaderAt, size int64) error // of a file that is not damaged
	drops    bool                                               // json describes a damaged file, too
	most     int64                                              // largest file that describe gets: it needs all of it in memory
}

var formats = []format{
	{"shard", shard.Describe, checkShard, shardJSON, false, mostDescribed},
	{"xorb", xorb.Describe, checkXorb, xorbJSON, false, mostXorb},
	{"page", page.Describe, checkPage, pageJSON, false, mostPages * page.MaxSize},
	{"document", names.Describe, checkDocument, documentJSON, false, 2 * names.MaxLongDocument},
	{"log", journal.Describe, checkLog, logJSON, true, mostDescribed},
}

// Kinds are the words that name a kind of file.
var Kinds = []string{"shard", "xorb", "page", "document", "log"}

// Object prints the fields of an object with a name. The kind as is one of Kinds, or "" to detect
// it from the content.
func Object(w io.Writer, r io.ReaderAt, size int64, name, as string, asJSON bool) (err error) {
	if as == "" {
		as, err = recognize(r, size, name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	format := formats[slices.IndexFunc(formats, func(f format) bool { return f.name == as })]
	if !asJSON {
		if err := describe(w, r, size, name, format); err != nil {
			return err
		}
	}
	damage := format.check(r, size)
	if asJSON && (damage == nil || format.drops) {
		if err := format.json(w, r, size); err != nil {
			return err
		}
	}
	if damage != nil {
		return fmt.Errorf("%s: %v", name, damage) //nolint:errorlint // the help promises exit status 1
	}
	return nil
}

// Limits of files that are printed as text. The limits exceed those of the formats, so that a
// file above a format's limit is reported as damaged.
const (
	mostDescribed = 512 << 20 // of a shard or log: a shard of a million files has some 250 MiB
	mostXorb      = 128 << 20 // a xorb has 65 MiB at most
	mostPages     = 16        // as long as this many pages
)

// describe prints the object as text.
func describe(w io.Writer, r io.ReaderAt, size int64, name string, format format) error {
	if size > format.most {
		return fmt.Errorf("%s: %d bytes are too many to show as text, %d are allowed for a %s; use --json", name, size, format.most, format.name)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(r, 0, size), b); err != nil {
		return err
	}
	return format.describe(w, b)
}

// A File is a local file that refuses reads once its context has ended.
type File struct {
	ctx context.Context // of the command; an io.ReaderAt has nowhere else for it
	f   *os.File
}

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.f.ReadAt(p, off)
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }

// Open opens a regular file and returns its size. It does not wait for a pipe.
func Open(ctx context.Context, path string) (*File, int64, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, 0, err
	case info.IsDir():
		return nil, 0, fmt.Errorf("%s: is a folder; xetfs ls shows what is in it", path)
	case !info.Mode().IsRegular():
		return nil, 0, fmt.Errorf("%s: is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	return &File{ctx, f}, info.Size(), nil
}

var errNoFormat = errors.New("not a shard, xorb, index page, document or journal; --as KIND reads it as one all the same")

// recognize returns the kind of a file. Shards and index pages have a magic number. Documents
// end with a checksum, journals begin with one. A xorb has a footer, or its first chunk has a
// valid header. A file of another content keeps the kind of its name, and is damaged.
func recognize(r io.ReaderAt, size int64, path string) (string, error) {
	head := make([]byte, min(size, journal.HeadSize))
	tail := make([]byte, min(size, documentTail))
	for _, part := range []struct {
		b   []byte
		off int64
	}{{head, 0}, {tail, size - int64(len(tail))}} {
		if _, err := r.ReadAt(part.b, part.off); err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
	}
	switch {
	case shard.IsShard(head):
		return "shard", nil
	case page.Is(head):
		return "page", nil
	case names.Is(tail):
		return "document", nil
	case journal.Is(head):
		return "log", nil
	}
	if _, err := xorb.Peek(r, size); err == nil {
		return "xorb", nil
	}
	if _, err := xorb.DecodeChunkHeader(head); err == nil {
		return "xorb", nil
	}
	if kind := called(path); kind != "" {
		return kind, nil
	}
	return "", errNoFormat
}

// documentTail is the length of the end of every document: a newline, 64 digits of the
// checksum, a newline.
const documentTail = 1 + 64 + 1

// called returns the kind that the name of a file claims: by its extension, or by its folder in
// a catalog.
func called(path string) string {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".shard", ".mdb":
		return "shard"
	case ".xorb":
		return "xorb"
	}
	if logNames.MatchString(filepath.Base(path)) {
		return "log"
	}
	parts := strings.Split(filepath.ToSlash(path), "/")
	for i := range parts {
		p, err := names.ParseKey(names.Key(strings.Join(parts[i:], "/")))
		switch {
		case err != nil:
		case p.Kind == names.PageKind:
			return "page"
		case p.Kind != names.SymbolKind:
			return "document"
		}
	}
	return ""
}
