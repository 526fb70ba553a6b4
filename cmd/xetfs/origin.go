package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/wrap"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/bare"
	"github.com/xetfs/xetfs/reconstruct"
)

// A source is the whole stack below the commands that read: from the folder that SOURCE
// names up to names and bytes of files.
//
//	dir → origin.Objects → cache.New → reconstruct.New
//	dir → origin.Pages → Cache.Pages → catalog.Open      a catalog
//	dir → catalog.Bare                                   any other folder
//
// Where SOURCE is the address of a web server, web takes the place of dir (origin_web.go).
type source struct {
	folder  string
	store   readStore
	disk    *diskCache // nil: nothing is kept on disk
	cache   *cache.Cache
	reader  *reconstruct.Reader
	catalog catalog.Catalog
	stored  *catalog.StoreCatalog // catalog, if there is one; else nil
	bare    *bare.Catalog         // catalog, if there is none; else nil

	asked    wrap.Counts // of the origin, if sourceOptions.count is set
	warnings []string    // what a user should hear of the disk cache
}

// A readStore is a store that was opened for reading.
type readStore interface {
	origin.Store
	io.Closer
}

// sourceOptions tune openSource.
type sourceOptions struct {
	bare     bool // take a catalog for any folder, too
	budget   budget
	noVerify bool
	log      *slog.Logger
	ranges   bool        // refuse a web server that ignores ranges
	count    bool        // counts the calls of the origin
	limits   wrap.Limits // of a web server; zero: the usual ones

	disk        *cacheFolder       // nil: nothing is kept on disk
	materialize reconstruct.Policy // what is laid down there whole
}

// openSource builds the stack over a folder. Nothing is ever written there.
func openSource(ctx context.Context, folder string, o sourceOptions) (*source, error) {
	if err := checkSource(folder); err != nil {
		return nil, err
	}
	s := &source{folder: folder}
	if err := s.openDisk(&o); err != nil {
		return nil, err
	}
	err := s.openStore(ctx, &o)
	if err == nil {
		err = s.build(ctx, o)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return s, nil
}

// openStore opens the folder for what it is, and notes that in o.
func (s *source) openStore(ctx context.Context, o *sourceOptions) (err error) {
	if isWeb(s.folder) {
		if s.store, err = openWeb(s.folder, o.log, o.limits); err == nil {
			o.bare, err = isBareWeb(ctx, s.store, o.bare)
		}
		if err == nil && o.ranges {
			err = checkRanges(ctx, s.store, o.bare)
		}
		return err
	}
	if !o.bare {
		keyed, err := dir.OpenReadOnly(s.folder)
		if err != nil {
			return err
		}
		s.store = keyed
		is, err := catalog.Exists(ctx, keyed)
		if err != nil || is {
			return err
		}
		o.bare = true
		if err := keyed.Close(); err != nil {
			return err
		}
	}
	s.store = nil
	found, err := dir.OpenBare(ctx, s.folder)
	if err != nil {
		return err
	}
	s.store = found
	return nil
}

func (s *source) build(ctx context.Context, o sourceOptions) error {
	objects := s.objects(o.budget.infos, !o.bare)
	if !objects.Local() {
		objects = wrap.Limit(objects, webRequests)
	}
	if o.count {
		objects = wrap.Count(objects, &s.asked)
	}
	if o.log.Enabled(ctx, slog.LevelDebug) { // it costs, also where nobody listens
		objects = wrap.Log(objects, o.log)
	}
	var err error
	options := o.budget.cacheOptions(o.noVerify, o.log)
	if s.disk != nil {
		options.Disk = s.disk.Store
	}
	if s.cache, err = cache.New(objects, options); err != nil {
		return err
	}
	if s.disk == nil {
		o.materialize = reconstruct.MaterializeNever // nowhere to lay a file down
	}
	s.reader = reconstruct.New(s.cache, reconstruct.Options{Terms: o.budget.terms, Materialize: o.materialize})
	if o.bare {
		s.bare, err = bare.Open(ctx, s.store, bare.Options{Logger: o.log})
		s.catalog = s.bare
		return err
	}
	s.stored, err = catalog.Open(ctx, s.store, s.pages())
	s.catalog = s.stored
	return err
}

// objects are the files of the store. What is asked of them is kept on disk, in the name of
// this store, if anything is. Named says that the catalog names them.
func (s *source) objects(infoBytes int64, named bool) origin.Source {
	o := objects.Options{InfoBytes: infoBytes, Named: named}
	if s.disk != nil {
		o.Keep, o.Scope = s.disk, strings.TrimRight(s.folder, "/")
	}
	return objects.New(s.store, o)
}

// pages are the index pages of the store, the last ones in memory.
func (s *source) pages() page.Getter { return s.cache.Pages(origin.Pages(s.store)) }

// holdsNothing says whether SOURCE has neither a catalog nor a shard that can be read.
func (s *source) holdsNothing(ctx context.Context) (bool, error) {
	if s.bare == nil {
		return false, nil
	}
	tree, err := s.bare.Open(ctx, "", names.AsOf{})
	if err != nil {
		return false, err
	}
	for _, err := range tree.List(ctx, "shards", "") {
		return false, err
	}
	return true, nil
}

// close gives everything back. Nothing may be read any more.
func (s *source) close() {
	if s.reader != nil {
		s.reader.Close()
	}
	if s.cache != nil {
		s.cache.Close()
	}
	if s.disk != nil {
		s.disk.Close()
	}
	if s.store != nil {
		s.store.Close()
	}
}

// checkSource says what is wrong with a SOURCE that is neither a folder nor an address.
func checkSource(source string) error {
	if isWeb(source) {
		return checkAddress(source)
	}
	return checkFolder(source)
}

// checkFolder says what is wrong with a SOURCE that is no folder.
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
