package serve

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
)

// typeFolders are the first segments of symbols that name the type of a repository.
var typeFolders = []string{hub.Model.Folder(), hub.Dataset.Folder(), hub.Space.Folder()}

// symbolsOf returns the symbols that can be a repository, the preferred one first.
func (r *Repos) symbolsOf(id hub.RepoID) []string {
	if r.mirror != "" {
		return slices.DeleteFunc([]string{string(id.Type) + "/" + id.Name}, func(s string) bool { return s != r.mirror })
	}
	return storeSymbols(id)
}

// storeSymbols returns the symbols of a store that can be a repository, the preferred one first.
func storeSymbols(id hub.RepoID) []string {
	symbols := []string{id.Type.Folder() + "/" + id.Name}
	first, _, _ := strings.Cut(id.Name, "/")
	if id.Type == hub.Model && !slices.Contains(typeFolders, first) {
		symbols = append(symbols, id.Name)
	}
	return symbols
}

var _ hubserve.Lister = (*Repos)(nil)

// Names implements hubserve.Lister.
func (r *Repos) Names(ctx context.Context, t hub.RepoType) (all []string, err error) {
	if r.catalog == nil {
		return nil, nil
	}
	for symbol, err := range r.catalog.Symbols(ctx) {
		if err != nil {
			return nil, err
		}
		id, ok := storeRepo(symbol)
		if r.mirror != "" {
			id, ok = mirrorRepo(symbol), symbol == r.mirror
		}
		if ok && id.Type == t && r.isReadable(ctx, id, symbol) {
			all = append(all, id.Name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// storeRepo returns the repository of a symbol of a store.
func storeRepo(symbol string) (id hub.RepoID, ok bool) {
	id = hub.RepoID{Type: hub.Model, Name: symbol}
	first, rest, _ := strings.Cut(symbol, "/")
	for _, t := range []hub.RepoType{hub.Model, hub.Dataset, hub.Space} {
		if first == t.Folder() {
			id = hub.RepoID{Type: t, Name: rest}
		}
	}
	return id, hubserve.IsRepoName(id.Name)
}

// isReadable reports whether the client may read a symbol. For a mirror, patterns of tokens name the
// symbol that a store would have.
func (r *Repos) isReadable(ctx context.Context, id hub.RepoID, symbol string) bool {
	if r.mirror == "" {
		return clientMayRead(ctx, symbol)
	}
	return clientMayRead(ctx, storeSymbols(id)...)
}

// mirrorRepo returns the repository of the symbol of a mirror, TYPE/NAME.
func mirrorRepo(symbol string) hub.RepoID {
	kind, name, _ := strings.Cut(symbol, "/")
	return hub.RepoID{Type: hub.RepoType(kind), Name: name}
}

// fitsRepository reports whether a pattern can match the symbol of a repository. It does not look
// into patterns with classes.
func fitsRepository(pattern string) bool {
	if strings.ContainsAny(pattern, `[\`) {
		return true
	}
	kind, name, _ := strings.Cut(pattern, "/")
	if strings.Contains(name, "/") {
		for _, folder := range typeFolders {
			if ok, _ := path.Match(kind, folder); ok { // auth has checked the pattern
				pattern = name
			}
		}
	}
	return hubserve.IsRepoName(strings.NewReplacer("*", "x", "?", "x").Replace(pattern))
}
