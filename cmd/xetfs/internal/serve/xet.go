package serve

import (
	"context"
	"errors"
	iofs "io/fs"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// tokenLife is the validity of a token for the CAS API. A client requests a new one in time. The
// Hub API then checks again whether the client may read the repository.
const tokenLife = 15 * time.Minute

// A Xet serves the CAS API, for tokens that the Hub API makes. The scope of a token is the tree
// of one version. A token of a branch or for uploads is for all live versions. A client that follows
// the branch still reads files of older versions.
type Xet struct {
	repos   *Repos
	private bool
	content casserve.Content
	options casserve.HandlerOptions
	handler http.Handler
}

var _ hubserve.Tokens = (*Xet)(nil)

// NewXet returns the CAS API of the content that open returns. Private means that clients need a
// token for each request but those to presigned URLs. Otherwise any token or none reads all files.
// Report is that of casserve.HandlerOptions.
func NewXet(open func(casserve.StoreOptions) casserve.Content, r *Repos, signer *casserve.Signer, private bool, report func(*http.Request, error)) *Xet {
	x := &Xet{repos: r, private: private}
	x.content = open(casserve.StoreOptions{Find: x.findFile})
	x.options = casserve.HandlerOptions{Authorize: x.authorize, Signer: signer, Report: report}
	x.handler = casserve.NewHandler(x.content, x.options)
	return x
}

// Accept makes the API accept uploads with the tokens of a Writer. It is called before the first
// request.
func (x *Xet) Accept(u casserve.Uploads, w *Writer) {
	x.options.Uploads, x.options.AuthorizeWrite = u, w.AuthorizeUpload
	x.handler = casserve.NewHandler(x.content, x.options)
}

// Signer returns the signer of all tokens.
func (x *Xet) Signer() *casserve.Signer { return x.options.Signer }

// oldPlans returns the hash in a path of plans as hf_xet had it until 1.1: without a version.
func oldPlans(p string) (hash string, ok bool) {
	if hash, ok = strings.CutPrefix(p, "/reconstructions/"); !ok {
		hash, ok = strings.CutPrefix(p, "/reconstruction/")
	}
	return hash, ok
}

// isCASPath reports whether a path belongs to the CAS API. Clients also request paths that this server does not
// have, and need a 404 for their token. Files of the owners v1, v2 and reconstructions belong to the Hub API.
func isCASPath(p string) bool {
	_, isOld := oldPlans(p)
	return (isOld || strings.HasPrefix(p, "/v1/") || strings.HasPrefix(p, "/v2/")) && !ownedFile.MatchString(p)
}

// ownedFile matches paths of a repository of a two-segment name: its files, and those of git-lfs.
var ownedFile = regexp.MustCompile(`^/[^/]+/[^/]+(/(resolve|raw)/|\.git/info/lfs/)`)

// ServeHTTP implements http.Handler.
func (x *Xet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if hash, ok := oldPlans(r.URL.Path); ok {
		old := *r.URL
		old.Path, old.RawPath = "/v1/reconstructions/"+hash, ""
		r = r.Clone(r.Context())
		r.URL = &old
	}
	x.handler.ServeHTTP(w, r)
}

// ReadToken implements hubserve.Tokens.
func (x *Xet) ReadToken(_ context.Context, _ hub.RepoID, c hubserve.Commit) (string, time.Time, error) {
	v, ok := c.(*commit)
	if !ok {
		return "", time.Time{}, hub.ErrRevisionNotFound
	}
	expires := time.Now().Add(tokenLife)
	s := scope{readScope, allVersions, v.symbol}
	if !v.ofBranch {
		s.detail = v.row.Root.String()
	}
	return x.options.Signer.Token(s.String(), expires), expires, nil
}

// authorize returns the text of the scope in which a token reads.
func (x *Xet) authorize(_ context.Context, token string) (string, error) {
	s, err := verifyScope(x.options.Signer, token, readScope, uploadScope)
	if err != nil && !x.private {
		return "", nil
	}
	if s.kind == uploadScope {
		s = scope{readScope, allVersions, s.symbol}
	}
	return s.String(), err
}

// findFile returns the id of a file in the text of a scope. A file that is not in the scope is
// io/fs.ErrPermission if private, or else found by its hash alone, as without a token.
func (x *Xet) findFile(ctx context.Context, text string, file codec.Hash) (id codec.FileID, err error) {
	s, _ := parseScope(text) // another text names no tree
	root, bad := page.ParseHash(s.detail)
	switch {
	case x.repos.catalog == nil, bad != nil && s.detail != allVersions:
		err = iofs.ErrPermission
	case bad != nil:
		id, err = x.repos.findInBranch(ctx, s.symbol, file)
	default:
		id, err = x.repos.findInTree(ctx, s.symbol, root, file)
	}
	if errors.Is(err, iofs.ErrPermission) && !x.private {
		return codec.FileID{File: file}, nil
	}
	return id, err
}

// findInTree returns the id of a file in a tree, or io/fs.ErrPermission.
func (r *Repos) findInTree(ctx context.Context, symbol string, root page.Hash, file codec.Hash) (codec.FileID, error) {
	if id, ok := r.files.get(root, file); ok {
		return orDenied(id)
	}
	t, err := r.catalog.OpenRow(ctx, symbol, names.Row{Root: root})
	if errors.Is(err, origin.ErrNotFound) {
		return codec.FileID{}, iofs.ErrPermission
	} else if err != nil {
		return codec.FileID{}, err
	}
	return r.files.search(ctx, t, root, file)
}

// maxSearched bounds the versions of a branch whose trees are read for one file.
const maxSearched = 16

// findInBranch returns the id of a file in the newest live versions of a symbol that have it, or
// io/fs.ErrPermission.
func (r *Repos) findInBranch(ctx context.Context, symbol string, file codec.Hash) (codec.FileID, error) {
	l, err := r.lineages.get(ctx, symbol)
	if isAbsent(err) {
		return codec.FileID{}, iofs.ErrPermission
	} else if err != nil {
		return codec.FileID{}, err
	}
	for _, v := range l.versions { // a client was shown the file
		if id, _ := r.files.get(v.row.Root, file); id != (codec.FileID{}) && !l.head.IsDeleted(v.row.Number) {
			return id, nil
		}
	}
	searched := 0
	for v, err := range r.lineages.versions(ctx, symbol, &l) {
		if err != nil {
			return codec.FileID{}, err
		}
		if id, err := r.findInTree(ctx, symbol, v.row.Root, file); !errors.Is(err, iofs.ErrPermission) {
			return id, err
		}
		if searched++; searched == maxSearched {
			break
		}
	}
	return codec.FileID{}, iofs.ErrPermission
}

// Bounds of a fileIndex.
const (
	maxFiles    = 100_000 // entries, of about 250 bytes
	maxSearches = 2       // trees that are read at a time
)

// A fileIndex has the files that clients were shown last, by tree and hash. Clients soon request
// them from the CAS API, which names no path. It is safe for concurrent use.
type fileIndex struct {
	searching chan struct{} // slots

	mu   sync.Mutex
	byID *lru.Cache[fileKey, codec.FileID] // guarded by mu
}

type fileKey struct {
	root page.Hash
	file codec.Hash
}

func newFileIndex() *fileIndex {
	return &fileIndex{searching: make(chan struct{}, maxSearches), byID: lru.New[fileKey, codec.FileID](maxFiles, nil)}
}

// get returns the id of a file in a tree. The id is zero if a search has not found the file.
func (fi *fileIndex) get(root page.Hash, file codec.Hash) (codec.FileID, bool) {
	fi.mu.Lock()
	defer fi.mu.Unlock()
	return fi.byID.Get(fileKey{root, file})
}

// add adds a file of a tree.
func (fi *fileIndex) add(root page.Hash, id codec.FileID) { fi.set(root, id.File, id) }

func (fi *fileIndex) set(root page.Hash, file codec.Hash, id codec.FileID) {
	fi.mu.Lock()
	defer fi.mu.Unlock()
	fi.byID.Add(fileKey{root, file}, id, 1)
}

// orDenied returns an id of fileIndex.get, or io/fs.ErrPermission.
func orDenied(id codec.FileID) (codec.FileID, error) {
	if id == (codec.FileID{}) {
		return id, iofs.ErrPermission
	}
	return id, nil
}

// search reads a tree until it finds a file, and adds all files on the way. It returns
// io/fs.ErrPermission if the tree does not have the file.
func (fi *fileIndex) search(ctx context.Context, t catalog.Tree, root page.Hash, file codec.Hash) (codec.FileID, error) {
	select {
	case fi.searching <- struct{}{}:
		defer func() { <-fi.searching }()
	case <-ctx.Done():
		return codec.FileID{}, ctx.Err()
	}
	if id, ok := fi.get(root, file); ok { // another search was faster
		return orDenied(id)
	}
	for e, err := range t.All(ctx, "") {
		if err != nil {
			return codec.FileID{}, err
		}
		if e.Type != page.File || e.Size == int64(len(e.Inline)) {
			continue
		}
		fi.add(root, e.ID)
		if e.ID.File == file {
			return e.ID, nil
		}
	}
	fi.set(root, file, codec.FileID{})
	return codec.FileID{}, iofs.ErrPermission
}
