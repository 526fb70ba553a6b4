package commits

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // git's names
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	iofs "io/fs"
	"net/http"
	"slices"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
	"github.com/xetfs/xetfs/cache/origin/hub/hubwrite"
	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A Request is one commit.
type Request struct {
	Symbol  string
	Author  string
	Session upload.SessionID
	Commit  *hubwrite.Commit

	// OpenRevision opens the tree of a revision of the symbol, or returns
	// hub.ErrRevisionNotFound.
	OpenRevision func(ctx context.Context, revision string) (catalog.Tree, error)

	// Readable returns a stored file that the client may read, or origin.ErrNotFound; nil: none.
	Readable func(ctx context.Context, sum [32]byte) (upload.Content, error)
}

// A staged is an operation whose content is stored.
type staged struct {
	kind     hubwrite.Kind
	path     string
	entry    page.Entry // of additions: content, size and hashes
	source   string     // of a copy
	revision string     // of source; "": the tree before the commit
}

// A stage is the operations of a commit, read and stored.
type stage struct {
	m    *Maker
	r    *Request
	tree catalog.Tree // newest at the start; nil: none

	newest string // ID of the version that the plan began with

	ops    []staged
	digest digest

	waiting      []waitingFile
	waitingBytes int
	contents     Finder
	used         []upload.Content // contents that the version will name
	paths        map[[32]byte]string
}

// A waitingFile is a regular file that is not stored yet.
type waitingFile struct {
	op      int // index in ops
	content []byte
	git     [sha1.Size]byte
}

// Regular files are stored together. These bounds limit the memory of a commit.
const (
	maxWaiting      = 2000
	maxWaitingBytes = 16 << 20
)

// read reads all operations of a request.
func (m *Maker) read(ctx context.Context, r *Request, tree catalog.Tree) (*stage, error) {
	st := &stage{
		m: m, r: r, tree: tree, digest: newDigest(r), paths: map[[32]byte]string{},
		contents: Finder{Uploads: m.o.Uploads, Session: r.Session, Readable: r.Readable},
	}
	for op, err := range r.Commit.Operations {
		if err == nil {
			err = st.add(ctx, &op)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(st.ops) == 0 {
		return st, nil
	}
	return st, st.flush(ctx)
}

// A digest identifies a commit by its texts, its parent and its operations.
type digest struct{ hash.Hash }

// newDigest returns the digest of a commit without operations.
func newDigest(r *Request) digest {
	d := digest{sha256.New()}
	d.record("xetfs commit 1", r.Author, r.Commit.Title, r.Commit.Description, r.Commit.Parent)
	return d
}

// record adds texts.
func (d digest) record(texts ...string) {
	for _, t := range texts {
		d.Write(binary.BigEndian.AppendUint64(nil, uint64(len(t))))
		io.WriteString(d, t) //nolint:errcheck,gosec // a hash returns no error
	}
}

// add adds an operation, and returns the SHA-256 of its content.
func (d digest) add(op *hubwrite.Operation) (content [32]byte) {
	content = op.SHA256
	if op.Kind == hubwrite.AddFile {
		content = sha256.Sum256(op.Content)
	}
	d.record(string(op.Kind), op.Path, op.Source, op.Revision, string(content[:]))
	return content
}

// text returns 32 hex digits.
func (d digest) text() string { return hex.EncodeToString(d.Sum(nil)[:16]) }

// add adds an operation.
func (st *stage) add(ctx context.Context, op *hubwrite.Operation) error {
	sum := st.digest.add(op)
	st.ops = append(st.ops, staged{kind: op.Kind, path: op.Path, source: op.Source, revision: op.Revision})
	at := &st.ops[len(st.ops)-1]
	switch op.Kind {
	case hubwrite.AddFile:
		return st.addRegular(ctx, at, op.Content, sum)
	case hubwrite.AddLFS:
		return st.addLarge(ctx, at, op, sum)
	}
	return nil
}

// addRegular adds a file with its content. Tiny content becomes a part of the entry.
func (st *stage) addRegular(ctx context.Context, s *staged, content []byte, sum [32]byte) error {
	s.entry = page.Entry{Path: s.path, Size: int64(len(content))}
	if len(content) <= page.MaxInline {
		if len(content) > 0 {
			s.entry.Inline = bytes.Clone(content)
		}
		return nil
	}
	s.entry.SHA256 = &sum
	git := gitSum(content)
	old, err := st.stored(ctx, s.path, sum)
	if err != nil {
		return err
	}
	if old != nil {
		s.entry.ID, s.entry.Xattrs = old.ID, gitAttributes(git, old.ID.File)
		return nil
	}
	st.waiting = append(st.waiting, waitingFile{len(st.ops) - 1, bytes.Clone(content), git})
	st.waitingBytes += len(content)
	if len(st.waiting) >= maxWaiting || st.waitingBytes >= maxWaitingBytes {
		return st.flush(ctx)
	}
	return nil
}

// stored returns the entry at a path of the newest tree if it has the content, or nil.
func (st *stage) stored(ctx context.Context, path string, sum [32]byte) (*page.Entry, error) {
	if st.tree == nil {
		return nil, nil //nolint:nilnil // absent
	}
	e, err := st.tree.Lookup(ctx, path)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return nil, nil //nolint:nilnil // absent
	case err != nil:
		return nil, err
	case e.Type != page.File || e.SHA256 == nil || *e.SHA256 != sum:
		return nil, nil //nolint:nilnil // other content
	}
	return &e, nil
}

// flush stores the files that wait.
func (st *stage) flush(ctx context.Context) error {
	if len(st.waiting) == 0 {
		return nil
	}
	files := make([]io.Reader, len(st.waiting))
	for i, w := range st.waiting {
		files[i] = bytes.NewReader(w.content)
	}
	contents, err := st.m.o.Uploads.PutContents(ctx, st.r.Session, files...)
	if err != nil {
		return explained(err)
	}
	for i, w := range st.waiting {
		c, e := contents[i], &st.ops[w.op].entry
		if c.Size != e.Size || c.SHA256 != *e.SHA256 {
			return fmt.Errorf("%s: its stored content differs", e.Path)
		}
		e.ID, e.Xattrs = c.ID, gitAttributes(w.git, c.ID.File)
		st.use(c, e.Path)
	}
	st.waiting, st.waitingBytes = nil, 0
	return nil
}

// use adds a content that the version will name under a path.
func (st *stage) use(c upload.Content, path string) {
	st.used = append(st.used, c)
	st.paths[c.SHA256] = path
}

// emptySum is the SHA-256 of the empty file.
var emptySum = sha256.Sum256(nil)

// addLarge adds a file by its SHA-256. The hash alone grants no access: the client must have
// uploaded the file or be able to read it.
func (st *stage) addLarge(ctx context.Context, s *staged, op *hubwrite.Operation, sum [32]byte) error {
	s.entry = page.Entry{Path: s.path}
	if sum == emptySum {
		return st.checkSize(op, 0)
	}
	s.entry.SHA256 = &sum
	old, err := st.stored(ctx, s.path, sum)
	if err != nil {
		return err
	}
	if old != nil {
		s.entry.Size, s.entry.ID, s.entry.Inline, s.entry.Xattrs = old.Size, old.ID, old.Inline, old.Xattrs
		return st.checkSize(op, old.Size)
	}
	c, err := st.contents.Find(ctx, sum)
	switch {
	case errors.Is(err, origin.ErrNotFound):
		return refusal(http.StatusBadRequest, "the content of %s was not uploaded by this client; upload it again", hubwrite.Quote(s.path))
	case err != nil:
		return explained(err)
	}
	s.entry.Size, s.entry.ID = c.Size, c.ID
	st.use(c, s.path)
	return st.checkSize(op, c.Size)
}

// checkSize compares the size that the client claims.
func (*stage) checkSize(op *hubwrite.Operation, size int64) error {
	if op.Size >= 0 && op.Size != size {
		return refusal(http.StatusBadRequest, "%s has %d bytes, the commit says %d", hubwrite.Quote(op.Path), size, op.Size)
	}
	return nil
}

// maxNamed bounds the paths in the text of an error.
const maxNamed = 5

// protect proves that the contents of the commit exist and stay.
func (st *stage) protect(ctx context.Context, by upload.Guard) error {
	if len(st.used) == 0 {
		return nil
	}
	err := st.m.o.Uploads.Commit(ctx, st.used, by)
	var lost *upload.LeaseError
	if !errors.As(err, &lost) {
		return explained(err)
	}
	var paths []string
	for _, c := range lost.Files {
		paths = append(paths, hubwrite.Quote(st.paths[c.SHA256]))
	}
	slices.Sort(paths)
	text := fmt.Sprint(paths[:min(len(paths), maxNamed)])
	return &hubserve.Refusal{Status: http.StatusConflict, Text: fmt.Sprintf("data of %d files was deleted since the upload; upload these files again: %s", len(paths), text)}
}
