package stack

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"maps"
	"os"
	"sync/atomic"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/mirror"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// A PublishStore is a STORE for one publish. It counts the index pages that are written.
type PublishStore struct {
	WriteStore
	Writer   *writer.Writer
	Mirror   mirror.Mirror // nil: all shards are read, each time
	TempFile func() (dedup.TempFile, error)
	listed   dir.ListedState // of the last publish into a folder
	pages    atomic.Int64
}

var (
	_ origin.CostReporter = (*PublishStore)(nil)
	_ origin.ChangeLister = (*PublishStore)(nil)
	_ origin.Matcher      = (*PublishStore)(nil)
	_ origin.KeyRejecter  = (*PublishStore)(nil)
	_ origin.AllSyncer    = (*PublishStore)(nil)
)

// OpenPublishStore opens a STORE and its catalog, or makes them.
func OpenPublishStore(ctx context.Context, path string, remote Remote) (*PublishStore, error) {
	store, tempFile, err := createStore(ctx, path, remote)
	if err != nil {
		return nil, err
	}
	s := &PublishStore{WriteStore: store, Mirror: newIndexed(store, path, remote), TempFile: tempFile}
	if l, ok := store.(*dir.Store); ok {
		s.listed = s.listedState()
		l.AddDurable(s.listed.Folders)
	}
	s.Writer, err = writer.Open(ctx, s, catalog.RecentPages(origin.Pages(s)), writer.Options{Logger: remote.Log})
	if err != nil {
		store.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Pages returns the number of index pages that were written.
func (s *PublishStore) Pages() int64 { return s.pages.Load() }

// PutIfAbsent implements origin.WriteStore. A stored shard also becomes a copy of the mirror.
func (s *PublishStore) PutIfAbsent(ctx context.Context, k names.Key, value []byte) (origin.Tag, error) {
	tag, err := s.WriteStore.PutIfAbsent(ctx, k, value)
	p, bad := names.ParseKey(k)
	switch {
	case err != nil || bad != nil:
	case p.Kind == names.PageKind:
		s.pages.Add(1)
	case p.Kind == names.ShardKind && s.Mirror != nil:
		s.Mirror.Put(k, value)
	}
	return tag, err
}

// Local implements origin.CostReporter.
func (s *PublishStore) Local() bool { return origin.Local(s.WriteStore) }

// ListChanged implements origin.ChangeLister.
func (s *PublishStore) ListChanged(ctx context.Context, prefix string, seen, now origin.FolderStates, same func(folder string)) iter.Seq2[origin.Item, error] {
	return origin.ListChanged(ctx, s.WriteStore, prefix, seen, now, same)
}

// listedFile is the kind of the file with a dir.ListedState.
const listedFile = "listed"

// listedState returns the state of the listing that the last publish wrote, or a zero one.
func (s *PublishStore) listedState() (state dir.ListedState) {
	if s.Mirror == nil || !s.Mirror.LoadState(listedFile, &state) {
		return dir.ListedState{}
	}
	return state
}

// WriteListing is the function WriteListing for this store. It lists only the folders that have changed
// since the last publish, and those with a damaged object, which may be mended in place.
func (s *PublishStore) WriteListing(ctx context.Context, create bool, note func(string)) {
	l, ok := s.WriteStore.(*dir.Store)
	if !ok || s.Mirror == nil {
		WriteListing(ctx, s.WriteStore, nil, create, note)
		return
	}
	now, err := l.WriteListing(ctx, nil, s.listed)
	if err != nil {
		noteUnlisted(err, note)
		return
	}
	sound := dedup.SoundFolders(s.Mirror)
	maps.DeleteFunc(now.Folders, func(folder, _ string) bool {
		_, ok := sound[folder]
		return !ok
	})
	s.listed = now
	s.Mirror.SaveState(listedFile, now)
}

// Matches implements origin.Matcher.
func (s *PublishStore) Matches(ctx context.Context, k names.Key, value []byte) (bool, error) {
	if m, ok := s.WriteStore.(origin.Matcher); ok {
		return m.Matches(ctx, k, value)
	}
	return false, nil
}

// SyncAll implements origin.AllSyncer.
func (s *PublishStore) SyncAll() {
	if a, ok := s.WriteStore.(origin.AllSyncer); ok {
		a.SyncAll()
	}
}

// RejectKey implements origin.KeyRejecter.
func (s *PublishStore) RejectKey(k names.Key) int {
	if r, ok := s.WriteStore.(origin.KeyRejecter); ok {
		return r.RejectKey(k)
	}
	return 0
}

// A DryStore is a STORE for a dry run.
type DryStore struct {
	Store    ReadStore             // nil: there is no store yet
	Catalog  *catalog.StoreCatalog // nil: the store has none
	Mirror   mirror.Mirror         // nil: all shards are read, each time
	TempFile func() (dedup.TempFile, error)
}

// OpenDryStore opens a STORE, if it exists, without writing to it.
func OpenDryStore(ctx context.Context, path string, remote Remote) (*DryStore, error) {
	s := &DryStore{TempFile: func() (dedup.TempFile, error) { return newTempFile(os.TempDir()) }}
	store, err := OpenKeys(path, remote)
	if errors.Is(err, iofs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	s.Store, s.Mirror = store, newIndexed(store, path, remote)
	exists, err := catalog.Exists(ctx, store)
	if err == nil && exists {
		s.Catalog, err = catalog.Open(ctx, store, catalog.RecentPages(origin.Pages(store)))
	}
	if err != nil {
		store.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Close closes the store.
func (s *DryStore) Close() error {
	if s.Store == nil {
		return nil
	}
	return s.Store.Close()
}
