package serve

import (
	"context"
	"crypto/sha1" //nolint:gosec // git's hash
	"crypto/sha256"
	"encoding/hex"
	"errors"
	iofs "io/fs"
	"iter"
	"path"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/commits"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/reconstruct"
)

// A commit is the tree of a version as the Hub shows it. A link shows the file to which it leads
// inside the tree. Other links are left out.
type commit struct {
	*version
	symbol string
	tree   catalog.Tree
	repos  *Repos // its index receives all files that a client sees

	ofBranch bool // the client named a branch, not a version
}

var _ hubserve.Commit = (*commit)(nil)

// ID implements hubserve.Commit.
func (c *commit) ID() string { return c.id }

// Time implements hubserve.Commit.
func (c *commit) Time() time.Time { return c.row.Time }

// Title implements hubserve.Commit.
func (c *commit) Title() string { return c.title }

// Lookup implements hubserve.Commit.
func (c *commit) Lookup(ctx context.Context, p string) (hubserve.File, error) {
	e, err := c.tree.Lookup(ctx, p)
	if err != nil {
		return hubserve.File{}, err
	}
	return c.file(ctx, &e)
}

// List implements hubserve.Commit.
func (c *commit) List(ctx context.Context, dir, after string) iter.Seq2[hubserve.File, error] {
	return func(yield func(hubserve.File, error) bool) {
		for e, err := range c.tree.List(ctx, dir, after) {
			var f hubserve.File
			if err == nil {
				f, err = c.file(ctx, &e)
			}
			if isAbsent(err) && e.Type == page.Symlink {
				continue
			}
			if !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// maxLinks bounds the links that lead to one file.
const maxLinks = 8

// file returns an entry as the Hub shows it. A link that leads to no file is io/fs.ErrNotExist.
func (c *commit) file(ctx context.Context, e *page.Entry) (hubserve.File, error) {
	name := e.Path
	for range maxLinks {
		switch e.Type {
		case page.Dir:
			if e.Path != name {
				return hubserve.File{}, iofs.ErrNotExist // a link to a folder
			}
			return hubserve.File{Path: name, IsDir: true}, nil
		case page.File:
			return c.regularFile(name, e), nil
		}
		target, ok := linkTarget(e)
		if !ok {
			return hubserve.File{}, iofs.ErrNotExist
		}
		found, err := c.tree.Lookup(ctx, target)
		if err != nil {
			return hubserve.File{}, err
		}
		e = &found
	}
	return hubserve.File{}, iofs.ErrNotExist
}

// regularFile returns the entry of a file as the Hub shows it under a path.
func (c *commit) regularFile(name string, e *page.Entry) hubserve.File {
	f := hubserve.File{Path: name, Size: e.Size, ID: e.ID, Inline: e.Inline, SHA256: e.SHA256}
	switch oid := commits.GitOID(e); {
	case e.Size == int64(len(e.Inline)):
	case oid != "":
		f.GitOID = oid // as on the Hub, it is not in Xet
	case !e.ID.File.IsPlain():
		f.InXet = true
		c.repos.files.add(c.row.Root, f.ID)
	case c.repos.sums != nil:
		setSum(&f, c.repos.sums(e.ID))
	}
	return f
}

// setSum sets the sum of a file outside Xet.
func setSum(f *hubserve.File, sum []byte) {
	switch len(sum) {
	case sha1.Size:
		f.GitOID = hex.EncodeToString(sum)
	case sha256.Size:
		f.SHA256 = (*[sha256.Size]byte)(sum)
	}
}

// linkTarget returns the path to which a link leads, if that is inside the tree.
func linkTarget(e *page.Entry) (string, bool) {
	if strings.HasPrefix(e.Target, "/") {
		return "", false
	}
	target := path.Join(path.Dir(e.Path), e.Target)
	return target, target != ".." && !strings.HasPrefix(target, "../") && target != "."
}

// Content reads files through a Reader, which returns verified bytes only.
type Content struct {
	Reader *reconstruct.Reader
	Mirror *Mirror // that fetches files in Xet before the first read; nil: none
}

var _ hubserve.Content = Content{}

// OpenFile implements hubserve.Content.
func (c Content) OpenFile(ctx context.Context, f *hubserve.File) (hubserve.ContentReader, error) {
	file, err := c.Reader.OpenSize(ctx, f.ID, f.Size)
	if err != nil {
		return nil, err
	}
	if file.Size() != f.Size {
		return nil, reconstruct.WrongSize(file.Size(), f.Size)
	}
	if c.Mirror == nil || f.ID.File.IsPlain() {
		return file.Handle(), nil
	}
	return &mirrorReader{file.Handle(), c.Mirror, f}, nil
}

// A mirrorReader reads a file once a Mirror has it, and if it has the SHA-256 of the listing.
type mirrorReader struct {
	*reconstruct.Handle
	mirror *Mirror
	file   *hubserve.File
}

// ReadAt implements hubserve.ContentReader.
func (r *mirrorReader) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if _, _, err := r.mirror.OpenFile(ctx, r.file.ID); err != nil {
		return 0, err
	}
	if r.file.SHA256 != nil {
		if err := r.File().VerifySHA256(ctx, *r.file.SHA256); err != nil {
			return 0, err
		}
	}
	return r.Handle.ReadAt(ctx, p, off)
}

// isAbsent reports whether an error means that a path does not exist.
func isAbsent(err error) bool { return errors.Is(err, iofs.ErrNotExist) }
