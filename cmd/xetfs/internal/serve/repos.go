package serve

import (
	"context"
	"errors"
	iofs "io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// Repos shows the symbols of a catalog as repositories of the Hub.
//
//	symbol                                repository
//	owner/name, name                      the model of that name
//	models/…, datasets/…, spaces/…        the model, dataset or space, of one or two segments
//
// Other symbols have no name on the Hub. Names are matched exactly. The symbol models/x precedes
// the symbol x.
//
// The newest version is the branch main. The commit of a version is its label git_commit or commit,
// or else the first 40 hex digits of the hash of its tree. A label that one of the 64 versions before has with
// another tree is no commit. The first 40 and all 64 digits of that hash are
// found, too. Snapshots and labels are tags. The label tag=NAME is the tag NAME, and any other
// label is the tag KEY=VALUE. Deleted versions are found by snapshots only. A damaged snapshot is not
// listed, and is an error of a request that names it.
type Repos struct {
	catalog  *catalog.StoreCatalog // nil: there are no symbols
	mirror   string                // the only symbol of a mirror, TYPE/NAME; "": no mirror
	lineages lineages
	files    *fileIndex
	sums     func(codec.FileID) []byte // of files outside Xet; nil: there are none
	log      *slog.Logger
	logged   sync.Map // names of damaged snapshots in the log
}

var _ hubserve.Repos = (*Repos)(nil)

// NewRepos returns the repositories of a catalog; nil has none. Local means that the store is a
// folder, so that each request may read the reference of its symbol.
func NewRepos(c *catalog.StoreCatalog, local bool, log *slog.Logger) *Repos {
	return &Repos{catalog: c, lineages: newLineages(c, local), files: newFileIndex(), log: log}
}

// NewMirrorRepos returns the repository of a mirror of the Hub, whose symbol is like
// model/owner/name. The catalog is on the local disk. Sums returns the SHA-1 that git has for a
// file outside Xet, its SHA-256 if it is in LFS, or nil.
func NewMirrorRepos(c *catalog.StoreCatalog, symbol string, sums func(codec.FileID) []byte, log *slog.Logger) *Repos {
	r := NewRepos(c, true, log)
	r.mirror, r.sums = symbol, sums
	return r
}

// readableSymbol returns the symbol of a repository that the client may read, and its versions.
func (r *Repos) readableSymbol(ctx context.Context, id hub.RepoID) (string, *lineage, error) {
	if r.catalog == nil {
		return "", nil, hub.ErrRepoNotFound
	}
	for _, symbol := range r.symbolsOf(id) {
		if !r.isReadable(ctx, id, symbol) {
			continue
		}
		l, err := r.lineages.get(ctx, symbol)
		if !errors.Is(err, iofs.ErrNotExist) {
			return symbol, l, err
		}
	}
	return "", nil, hub.ErrRepoNotFound
}

// Resolve implements hubserve.Repos.
func (r *Repos) Resolve(ctx context.Context, id hub.RepoID, revision string) (hubserve.Commit, error) {
	symbol, l, err := r.readableSymbol(ctx, id)
	if err != nil {
		return nil, err
	}
	v, err := r.revision(ctx, symbol, l, revision)
	if err != nil {
		return nil, err
	}
	t, err := r.catalog.OpenRow(ctx, symbol, v.row)
	if err != nil {
		return nil, err
	}
	return &commit{version: v, symbol: symbol, tree: t, repos: r, ofBranch: isBranch(revision)}, nil
}

// mainBranch is the branch of the newest version.
const mainBranch = "main"

// isBranch reports whether a revision names the newest version, whatever it is.
func isBranch(revision string) bool {
	return slices.Contains([]string{"", mainBranch, "HEAD", "refs/heads/" + mainBranch}, revision)
}

// revision returns the version that a revision names.
func (r *Repos) revision(ctx context.Context, symbol string, l *lineage, revision string) (*version, error) {
	isMain, tag := isBranch(revision), strings.TrimPrefix(revision, "refs/tags/")
	for v, err := range r.lineages.versions(ctx, symbol, &l) {
		switch {
		case err != nil:
			return nil, err
		case isMain && v.row.Number == l.latest.Number, !isMain && (v.isCommit(revision) || slices.Contains(v.tags, tag)):
			return v, nil
		}
	}
	if isMain || names.CheckSnapshot(tag) != nil {
		return nil, hub.ErrRevisionNotFound
	}
	s, err := r.catalog.Snapshot(ctx, tag)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, hub.ErrRevisionNotFound
	} else if err != nil {
		return nil, err
	}
	row, ok := s.Rows[symbol]
	if !ok {
		return nil, hub.ErrRevisionNotFound
	}
	return l.ofRow(row), nil
}

// maxRefs bounds the tags of one answer, and the snapshots that are read for it.
const maxRefs = 2000

// Refs implements hubserve.Repos.
func (r *Repos) Refs(ctx context.Context, id hub.RepoID) (branches, tags []hubserve.Ref, err error) {
	symbol, l, err := r.readableSymbol(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	newest, err := r.revision(ctx, symbol, l, "")
	if err != nil {
		return nil, nil, err
	}
	seen := map[string]bool{}
	add := func(name string, v *version) bool {
		if !seen[name] {
			tags, seen[name] = append(tags, hubserve.Ref{Name: name, Commit: v.id}), true
		}
		return len(tags) < maxRefs
	}
	for v, err := range r.lineages.versions(ctx, symbol, &l) {
		if err != nil {
			return nil, nil, err
		}
		for _, tag := range v.tags {
			add(tag, v)
		}
		if len(tags) >= maxRefs {
			break
		}
	}
	if len(tags) < maxRefs {
		err = r.addSnapshots(ctx, symbol, func(name string, row names.Row) bool { return add(name, l.ofRow(row)) })
	}
	return []hubserve.Ref{{Name: mainBranch, Commit: newest.id}}, tags, err
}

// addSnapshots calls add for the sound snapshots of a symbol, until it returns false. A store that
// cannot list has no snapshots here.
func (r *Repos) addSnapshots(ctx context.Context, symbol string, add func(string, names.Row) bool) error {
	n := 0
	for name, err := range r.catalog.Snapshots(ctx) {
		if errors.Is(err, errors.ErrUnsupported) || n == maxRefs {
			return nil
		}
		if err != nil {
			return err
		}
		n++
		s, err := r.catalog.Snapshot(ctx, name)
		switch {
		case errors.Is(err, iofs.ErrNotExist): // deleted meanwhile
			continue
		case errors.Is(err, codec.ErrCorrupt):
			r.logDamaged(name, err)
			continue
		case err != nil:
			return err
		}
		if row, ok := s.Rows[symbol]; ok && !add(name, row) {
			return nil
		}
	}
	return nil
}

// logDamaged logs a damaged snapshot once. The repositories remain readable without it.
func (r *Repos) logDamaged(name string, err error) {
	if _, ok := r.logged.LoadOrStore(name, true); !ok {
		r.log.Warn("a damaged snapshot is not shown as a tag", "event", "corrupt", "what", "catalog", "key", names.SnapshotKey(name), "err", err)
	}
}
