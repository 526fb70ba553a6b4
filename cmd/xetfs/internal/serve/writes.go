package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
	"github.com/xetfs/xetfs/cache/origin/hub/hubwrite"
	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/commits"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A Writer changes the repositories of a store: it adapts a commits.Maker to the Hub API. A symbol
// is changed by clients whose token may write it.
type Writer struct {
	o    WriterOptions
	sums *sumIndex
}

var _ hubwrite.Repos = (*Writer)(nil)

// WriterOptions describe a Writer. All are required.
type WriterOptions struct {
	Repos   *Repos
	Content hubserve.Content
	Maker   *commits.Maker
	Uploads Uploads
	Signer  *casserve.Signer
	Changed func() // called after each change of a symbol

	// Ignores returns a function that reports whether patterns like those of a .gitignore
	// exclude a path.
	Ignores func(patterns string) (func(path string) bool, error)
}

// Uploads are the contents that clients have uploaded.
type Uploads interface {
	commits.Uploads

	// PutContent stores a file of up to limit bytes. length is negative if unknown.
	PutContent(ctx context.Context, s upload.SessionID, r io.Reader, length, limit int64) (upload.Content, error)

	// MaxContent returns the most bytes of a file for PutContent.
	MaxContent() int64
}

// NewWriter returns a Writer.
func NewWriter(o WriterOptions) *Writer { return &Writer{o: o, sums: newSumIndex()} }

// symbol returns the symbol of a repository that the client may change: the live one, or else the
// one that a new repository has.
func (w *Writer) symbol(ctx context.Context, id hub.RepoID) (symbol string, exists bool, err error) {
	for _, s := range storeSymbols(id) {
		if !clientMayWrite(ctx, s) {
			continue
		}
		symbol = s // the last one has no prefix
		_, err := w.o.Repos.lineages.get(ctx, s)
		switch {
		case err == nil:
			return s, true, nil
		case !isAbsent(err):
			return "", false, err
		}
	}
	if symbol == "" {
		return "", false, refusalOf(ctx)
	}
	return symbol, false, nil
}

// existing returns the symbol of a repository that exists.
func (w *Writer) existing(ctx context.Context, id hub.RepoID) (string, error) {
	symbol, exists, err := w.symbol(ctx, id)
	if err == nil && !exists {
		err = hub.ErrRepoNotFound
	}
	return symbol, err
}

// changed is called after a change of some symbols, or a failed one.
func (w *Writer) changed(symbols ...string) {
	for _, symbol := range symbols {
		w.o.Repos.lineages.expire(symbol)
	}
	w.o.Changed()
}

// Create implements hubwrite.Repos.
func (w *Writer) Create(ctx context.Context, id hub.RepoID) error {
	symbol, exists, err := w.symbol(ctx, id)
	switch {
	case err != nil:
		return err
	case exists:
		return hubwrite.ErrRepoExists
	}
	defer w.changed(symbol)
	return w.o.Maker.Create(ctx, symbol, userOf(ctx).Name)
}

// Delete implements hubwrite.Repos.
func (w *Writer) Delete(ctx context.Context, id hub.RepoID) error {
	symbol, err := w.existing(ctx, id)
	if err != nil {
		return err
	}
	defer w.changed(symbol)
	return w.o.Maker.Delete(ctx, symbol)
}

// Move implements hubwrite.Repos.
func (w *Writer) Move(ctx context.Context, from, to hub.RepoID) error {
	old, _, err := w.symbol(ctx, from)
	if err != nil {
		return err
	}
	symbol, _, err := w.symbol(ctx, to)
	if err != nil {
		return err
	}
	defer w.changed(old, symbol)
	return w.o.Maker.Move(ctx, old, symbol)
}

// Head implements hubwrite.Repos.
func (w *Writer) Head(ctx context.Context, id hub.RepoID) (hubserve.Commit, error) {
	if _, err := w.existing(ctx, id); err != nil {
		return nil, err
	}
	return w.o.Repos.Resolve(ctx, id, mainBranch)
}

// maxIgnoreFile bounds a .gitignore in bytes.
const maxIgnoreFile = 1 << 20

// Ignores implements hubwrite.Repos.
func (w *Writer) Ignores(ctx context.Context, c hubserve.Commit, patterns *string) (func(string) bool, error) {
	none := func(string) bool { return false }
	if patterns == nil {
		f, err := c.Lookup(ctx, ".gitignore")
		if isAbsent(err) || err == nil && (f.IsDir || f.Size > maxIgnoreFile) {
			return none, nil
		}
		text := f.Inline
		if err == nil && f.Size > int64(len(text)) {
			text, err = w.readFile(ctx, &f)
		}
		if err != nil {
			return nil, err
		}
		stored := string(text)
		patterns = &stored
	}
	if *patterns == "" {
		return none, nil
	}
	ignored, err := w.o.Ignores(*patterns)
	if err != nil {
		return nil, &hubserve.Refusal{Status: http.StatusBadRequest, Text: "the file .gitignore has a pattern that is not valid"}
	}
	return ignored, nil
}

// readFile returns the content of a small file.
func (w *Writer) readFile(ctx context.Context, f *hubserve.File) ([]byte, error) {
	r, err := w.o.Content.OpenFile(ctx, f)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b := make([]byte, f.Size)
	if n, err := r.ReadAt(ctx, b, 0); n < len(b) {
		return nil, err
	}
	return b, nil
}

// session returns the session of the client of a request for a symbol. It is derived from the
// token, so that it is the same after a restart, and does not reveal the token.
func session(ctx context.Context, symbol string) upload.SessionID {
	h := sha256.New()
	if g, ok := ctx.Value(grantKey{}).(*grant); ok {
		h.Write(g.sum[:])
	}
	_, _ = io.WriteString(h, "\x00session of "+symbol) // a hash returns no error
	return upload.SessionID(hex.EncodeToString(h.Sum(nil)[:16]))
}

// WriteToken implements hubwrite.Repos.
func (w *Writer) WriteToken(ctx context.Context, id hub.RepoID) (hubwrite.WriteToken, error) {
	symbol, err := w.existing(ctx, id)
	if err != nil {
		return hubwrite.WriteToken{}, err
	}
	s := string(session(ctx, symbol))
	expires := time.Now().Add(tokenLife)
	token := w.o.Signer.Token(scope{uploadScope, s, symbol}.String(), expires)
	return hubwrite.WriteToken{Token: token, Expires: expires, Session: s[:8]}, nil
}

// AuthorizeUpload returns the session of a token of WriteToken, or io/fs.ErrPermission.
func (w *Writer) AuthorizeUpload(_ context.Context, token string) (upload.SessionID, error) {
	s, err := verifyScope(w.o.Signer, token, uploadScope)
	return upload.SessionID(s.detail), err
}

// HasObjects implements hubwrite.Repos.
func (w *Writer) HasObjects(ctx context.Context, id hub.RepoID, objects []hubwrite.Object) ([]bool, error) {
	symbol, err := w.existing(ctx, id)
	if err != nil {
		return nil, err
	}
	contents := commits.Finder{
		Uploads: w.o.Uploads, Session: session(ctx, symbol),
		Readable: func(ctx context.Context, sum [32]byte) (upload.Content, error) { return w.readable(ctx, symbol, sum) },
	}
	has := make([]bool, len(objects))
	for i, o := range objects {
		c, err := contents.Find(ctx, o.SHA256)
		if err != nil && !errors.Is(err, origin.ErrNotFound) {
			return nil, err
		}
		has[i] = err == nil && c.Size == o.Size
	}
	return has, nil
}

// objectLife is the validity of a token for one object.
const objectLife = time.Hour

// ObjectToken implements hubwrite.Repos.
func (w *Writer) ObjectToken(ctx context.Context, id hub.RepoID, o hubwrite.Object) (string, time.Time, error) {
	symbol, err := w.existing(ctx, id)
	if err != nil {
		return "", time.Time{}, err
	}
	if limit := w.o.Uploads.MaxContent(); o.Size > limit {
		return "", time.Time{}, &hubserve.Refusal{
			Status: http.StatusRequestEntityTooLarge,
			Text:   fmt.Sprintf("without Xet a file has at most %d bytes; upload it with hf_xet", limit),
		}
	}
	expires := time.Now().Add(objectLife)
	detail := fmt.Sprintf("%s:%x:%d", session(ctx, symbol), o.SHA256, o.Size)
	return w.o.Signer.Token(scope{objectScope, detail, symbol}.String(), expires), expires, nil
}

// errObjectToken is the answer for an address that is not valid.
var errObjectToken = &hubserve.Refusal{Status: http.StatusForbidden, Text: "the address of this upload is not valid or has expired; request a new one"}

// PutObject implements hubwrite.Repos.
func (w *Writer) PutObject(ctx context.Context, token string, _ hub.RepoID, sum [32]byte, content io.Reader) error {
	s, err := verifyScope(w.o.Signer, token, objectScope)
	words := strings.Split(s.detail, ":")
	if err != nil || len(words) != 3 || words[1] != hex.EncodeToString(sum[:]) {
		return errObjectToken
	}
	size, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return errObjectToken
	}
	c, err := w.o.Uploads.PutContent(ctx, upload.SessionID(words[0]), content, size, size)
	switch {
	case err != nil:
		return uploadError(err)
	case c.Size != size || c.SHA256 != sum:
		return &hubserve.Refusal{Status: http.StatusBadRequest, Text: "the content has another size or SHA-256 than the address of the upload"}
	}
	return nil
}

// uploadError returns the error of an upload as clients see it.
func uploadError(err error) error {
	status := 0
	switch {
	case errors.Is(err, upload.ErrTooLarge):
		return &hubserve.Refusal{Status: http.StatusRequestEntityTooLarge, Text: "the content is longer than the size of its object"}
	case errors.Is(err, upload.ErrFull):
		status = http.StatusInsufficientStorage
	case errors.Is(err, upload.ErrBusy):
		status = http.StatusTooManyRequests
	case errors.Is(err, upload.ErrSlow):
		status = http.StatusRequestTimeout
	case errors.Is(err, upload.ErrRefused):
		status = http.StatusBadRequest
	default:
		return err
	}
	return &hubserve.Refusal{Status: status, Text: err.Error()}
}

// Commit implements hubwrite.Repos.
func (w *Writer) Commit(ctx context.Context, id hub.RepoID, c *hubwrite.Commit) (string, error) {
	symbol, err := w.existing(ctx, id)
	if err != nil {
		return "", err
	}
	defer w.changed(symbol)
	return w.o.Maker.Commit(ctx, &commits.Request{
		Symbol: symbol, Author: userOf(ctx).Name, Session: session(ctx, symbol), Commit: c,
		OpenRevision: func(ctx context.Context, revision string) (catalog.Tree, error) {
			return w.openRevision(ctx, symbol, revision)
		},
		Readable: func(ctx context.Context, sum [32]byte) (upload.Content, error) { return w.readable(ctx, symbol, sum) },
	})
}

// openRevision opens the tree of a revision of a symbol.
func (w *Writer) openRevision(ctx context.Context, symbol, revision string) (catalog.Tree, error) {
	l, err := w.o.Repos.lineages.get(ctx, symbol)
	if err != nil {
		return nil, err
	}
	v, err := w.o.Repos.revision(ctx, symbol, l, revision)
	if err != nil {
		return nil, err
	}
	return w.o.Repos.catalog.OpenRow(ctx, symbol, v.row)
}

// CommitID returns the hash by which clients know a version.
func CommitID(v *names.Version) string { return newVersion(v.Rows[0], v).id }
