package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/metacache"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/wrap"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/bare"
	"github.com/xetfs/xetfs/fs/catalog/signature"
	"github.com/xetfs/xetfs/reconstruct"
)

// A Source is the whole stack below the commands that read: from SOURCE to names and bytes of
// files.
//
//	dir → objects.New → wrap → cache.New → reconstruct.New
//	dir → origin.Pages → Cache.Pages → catalog.Open      a catalog
//	dir → bare.Open                                      any other folder
//
// For an address, web or s3 takes the place of dir (remote.go). A repository of the Hub has a
// catalog of its own and other sources (hub.go).
type Source struct {
	Folder  string
	Symbol  string // of the only tree of SOURCE; "": SOURCE has a tree for each symbol
	store   ReadStore
	hub     *hubSource          // nil: SOURCE is no repository of the Hub
	below   origin.Source       // below the cache
	infos   casserve.InfoSource // the same; nil: it has no places of all chunks
	Disk    *DiskCache          // nil: nothing is stored on disk
	shared  bool                // other sources use Disk, too
	Cache   *cache.Cache
	Reader  *reconstruct.Reader
	Catalog catalog.Catalog
	Stored  *catalog.StoreCatalog // catalog, if there is one; else nil
	Signed  *signature.Catalog    // the signed versions of Stored, if Options.Signatures is set; else nil
	Bare    *bare.Catalog         // catalog of a folder without one; else nil

	Requests  wrap.Counts     // of the origin, if Options.Count is set
	Counters  *fetch.Counters // of the requests to a remote SOURCE; nil: SOURCE is local
	Warnings  []string        // about the disk cache, for the user
	MaxRead   int             // the largest read that the kernel should send, in bytes
	LoadBytes int64           // limit of the ranges of xorbs that a mirror fetches at once
}

// A ReadStore is an open store for reading.
type ReadStore interface {
	origin.Store
	io.Closer
}

// Options tune OpenSource.
type Options struct {
	Bare     bool // take a catalog for any folder, too
	Budget   Budget
	NoVerify bool
	Strict   bool // return no unproven byte, see reconstruct.Options
	Log      *slog.Logger
	Ranges   bool   // refuse a web server that ignores ranges
	Count    bool   // counts the calls of the origin
	Remote   Remote // of a SOURCE that is an address; Log is taken from above

	Follow time.Duration // poll interval for new commits of the Hub; 0: never
	Early  bool          // open a repository of the Hub before its listing is complete; Stored is then behind Catalog

	Signatures *signature.Options // show signed versions alone; nil: all versions

	Disk        *CacheFolder       // nil: nothing is stored on disk
	Shared      *DiskCache         // instead of Disk, if several sources share it; the caller closes it
	Materialize reconstruct.Policy // the files to store as plain files
}

// OpenSource opens all layers over a SOURCE. It writes nothing to SOURCE.
func OpenSource(ctx context.Context, folder string, o Options) (*Source, error) {
	if err := CheckSource(folder); err != nil {
		return nil, err
	}
	s := &Source{Folder: folder}
	if IsAddress(folder) {
		o.Remote.Counters = cmp.Or(o.Remote.Counters, new(fetch.Counters))
		s.Counters = o.Remote.Counters
	}
	if err := s.openDisk(&o); err != nil {
		return nil, err
	}
	err := s.openStore(ctx, &o)
	if err == nil {
		err = s.build(ctx, o)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	if s.hub != nil {
		s.hub.follow(o.Follow) // it uses the CAS client
	}
	return s, nil
}

// openStore opens SOURCE as a catalog or as a bare folder, and sets o.Bare.
func (s *Source) openStore(ctx context.Context, o *Options) (err error) {
	o.Remote.Log = o.Log
	if IsHub(s.Folder) {
		if o.Signatures != nil {
			return ArgumentError{errors.New("--allowed-signers: commits of the Hub have no signatures")}
		}
		return s.openHub(ctx, o)
	}
	s.store, o.Bare, err = OpenRead(ctx, s.Folder, o.Bare, o.Remote)
	if err == nil && o.Bare && o.Signatures != nil {
		err = ArgumentError{errors.New("--allowed-signers: without a catalog there are no signatures")}
	}
	if err == nil && o.Ranges {
		err = CheckRanges(ctx, s.store, o.Bare)
	}
	return err
}

// openHub opens a repository of the Hub.
func (s *Source) openHub(ctx context.Context, o *Options) (err error) {
	if o.Bare {
		return ArgumentError{errors.New("--bare is for folders of shards and xorbs, and the Hub has files with names")}
	}
	if s.hub, err = openHub(ctx, s.Folder, o.Remote, o.Early); err != nil {
		return err
	}
	s.Symbol = s.hub.Symbol()
	return s.openKeyed(s.hub.Folder())
}

// openKeyed opens the folder of a catalog. After an error, s has no store.
func (s *Source) openKeyed(folder string) error {
	store, err := dir.OpenReadOnly(folder)
	if err != nil {
		return err // without a nil pointer in the interface
	}
	s.store = store
	return nil
}

// OpenRead opens SOURCE for reading: by the keys of its catalog, or else without a catalog. It
// reports whether it did the latter, which bare demands.
func OpenRead(ctx context.Context, source string, bare bool, remote Remote) (s ReadStore, isBare bool, err error) {
	if !IsAddress(source) {
		return openFolder(ctx, source, bare)
	}
	if s, err = OpenRemote(source, remote); err != nil {
		return nil, false, err
	}
	if isBare, err = isBareRemote(ctx, s, bare); err != nil {
		return nil, false, errors.Join(err, s.Close())
	}
	return s, isBare, nil
}

// openFolder is OpenRead of a folder. Without a catalog, it finds objects by their content.
func openFolder(ctx context.Context, folder string, bare bool) (s ReadStore, isBare bool, err error) {
	if !bare {
		keyed, err := dir.OpenReadOnly(folder)
		if err != nil {
			return nil, false, err
		}
		exists, err := catalog.Exists(ctx, keyed)
		if exists && err == nil {
			return keyed, false, nil
		}
		if err := errors.Join(err, keyed.Close()); err != nil {
			return nil, false, err
		}
	}
	found, err := dir.OpenBare(ctx, folder)
	if err != nil {
		return nil, true, err
	}
	return found, true, nil
}

func (s *Source) build(ctx context.Context, o Options) error {
	objects := s.objects(o.Budget, !o.Bare && o.Signatures == nil)
	s.below = objects
	s.infos, _ = objects.(casserve.InfoSource)
	if !objects.Local() {
		objects = wrap.Limit(objects, remoteRequests)
	}
	if o.Count {
		objects = wrap.Count(objects, &s.Requests)
	}
	if o.Log.Enabled(ctx, slog.LevelDebug) { // disabled debug lines cost time, too
		objects = wrap.Log(objects, o.Log)
	}
	var err error
	options := o.Budget.cacheOptions(o.NoVerify)
	if s.Disk != nil {
		options.Disk = s.Disk.Store
	}
	if s.Cache, err = cache.New(objects, options); err != nil {
		return err
	}
	if s.Disk == nil {
		o.Materialize = reconstruct.MaterializeNever // no disk for plain files
	}
	read := reconstruct.Options{Ahead: o.Budget.whole(), Terms: o.Budget.Terms, Materialize: o.Materialize, Strict: o.Strict}
	if s.hub != nil {
		read.OnContradiction = func(codec.FileID) { s.hub.Doubt() }
	}
	s.Reader = reconstruct.New(s.Cache, read)
	s.MaxRead, s.LoadBytes = maxRead(s.Cache.Local(), s.Reader.Proves(), o.Budget), o.Budget.loadBytes()
	if o.Bare {
		s.Bare, err = bare.Open(ctx, s.store, bare.Options{Logger: o.Log})
		s.Catalog = s.Bare
		return err
	}
	s.Stored, err = catalog.Open(ctx, s.store, s.pages())
	s.Catalog = s.Stored
	if o.Signatures != nil && err == nil {
		s.Signed = signature.New(s.Stored, *o.Signatures)
		s.Catalog = s.Signed
	}
	if s.hub != nil && err == nil {
		s.Catalog = s.hub.Catalog(s.Stored)
		if o.Early {
			s.hub.connect()
		}
	}
	return err
}

// objects returns the files of the store. Their metadata is cached on disk under the name of
// this store. Named means that the catalog names them. A signature is for the content of files, and
// not for the shards that describe them.
func (s *Source) objects(b Budget, named bool) origin.Source {
	if s.hub != nil {
		var backend metacache.Backend
		if s.Disk != nil {
			backend = s.Disk // without a nil pointer in the interface
		}
		return s.hub.source(backend, b)
	}
	o := objects.Options{InfoBytes: b.Infos, Named: named}
	if s.Disk != nil {
		o.Backend, o.Scope = s.Disk, scope(s.Folder, s.store)
	}
	return objects.New(s.store, o)
}

// pages returns the index pages of the store through the cache.
func (s *Source) pages() page.Getter { return s.Cache.Pages(origin.Pages(s.store)) }

// Versions returns the versions to show of the catalog in SOURCE.
func (s *Source) Versions() catalog.VersionedCatalog {
	if s.Signed != nil {
		return s.Signed
	}
	return s.Stored
}

// Store returns the store of SOURCE. The caller must not close it.
func (s *Source) Store() ReadStore { return s.store }

// FollowError returns the reason why the Hub is not followed; "": it is, or SOURCE is not of the Hub.
func (s *Source) FollowError() string {
	if s.hub == nil {
		return ""
	}
	return s.hub.FollowError()
}

// HasObjects reports whether SOURCE has shards and xorbs, besides the files and their names.
func (s *Source) HasObjects() bool { return s.hub == nil }

// Origin returns the files below the cache.
func (s *Source) Origin() origin.Source { return s.below }

// Infos returns the places of all chunks of the xorbs in SOURCE; nil: they are not known.
func (s *Source) Infos() casserve.InfoSource { return s.infos }

// IsEmpty reports whether SOURCE has neither a catalog nor a readable shard.
func (s *Source) IsEmpty(ctx context.Context) (bool, error) {
	if s.Bare == nil {
		return false, nil
	}
	tree, err := s.Bare.Open(ctx, "", names.AsOf{})
	if err != nil {
		return false, err
	}
	for _, err := range tree.List(ctx, "shards", "") {
		return false, err
	}
	return true, nil
}

// Close closes all layers. No layer may be used afterwards.
func (s *Source) Close() {
	if s.Reader != nil {
		s.Reader.Close()
	}
	if s.Cache != nil {
		s.Cache.Close()
	}
	if s.hub != nil {
		_ = s.hub.Close() // it stores metadata on the disk
	}
	if s.Disk != nil && !s.shared {
		s.Disk.Close()
	}
	if s.store != nil {
		s.store.Close()
	}
}

// CheckSource returns an error for a SOURCE that is neither a folder nor a valid address.
func CheckSource(source string) error {
	if IsAddress(source) {
		return checkAddress(source)
	}
	return checkFolder(source)
}

// checkFolder returns an error for a SOURCE that is no folder.
func checkFolder(folder string) error {
	if err := checkLocal(folder); err != nil {
		return err
	}
	info, err := os.Stat(folder)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", folder, ui.Reason(err))
	case !info.IsDir():
		return ArgumentError{fmt.Errorf("%s: SOURCE is a folder with shards and xorbs, this is a file; xetfs inspect shows what is in it", folder)}
	}
	return nil
}
