package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
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
	cache   *cache.Cache
	reader  *reconstruct.Reader
	catalog catalog.Catalog
	stored  *catalog.Stored      // catalog, if there is one; else nil
	bare    *catalog.BareCatalog // catalog, if there is none; else nil
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
}

// openSource builds the stack over a folder. Nothing is ever written there.
func openSource(ctx context.Context, folder string, o sourceOptions) (*source, error) {
	if err := checkSource(folder); err != nil {
		return nil, err
	}
	s := &source{folder: folder}
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
		if s.store, err = openWeb(s.folder, o.log); err == nil {
			o.bare, err = isBareWeb(ctx, s.store, o.bare)
		}
		return err
	}
	if !o.bare {
		keyed, err := dir.OpenReadOnly(s.folder)
		if err != nil {
			return err
		}
		s.store = keyed
		is, err := catalog.Is(ctx, keyed)
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
	objects := origin.Objects(s.store, o.budget.infos)
	if !objects.Near() {
		objects = origin.Limit(objects, webRequests)
	}
	if o.log.Enabled(ctx, slog.LevelDebug) { // it costs, also where nobody listens
		objects = origin.Log(objects, o.log)
	}
	var err error
	if s.cache, err = cache.New(objects, o.budget.cacheOptions(o.noVerify, o.log)); err != nil {
		return err
	}
	s.reader = reconstruct.New(s.cache, reconstruct.Options{})
	if o.bare {
		s.bare, err = catalog.Bare(ctx, s.store, catalog.BareOptions{Logger: o.log})
		s.catalog = s.bare
		return err
	}
	s.stored, err = catalog.Open(ctx, s.store, s.pages())
	s.catalog = s.stored
	return err
}

// pages are the index pages of the store, the last ones in memory.
func (s *source) pages() page.Getter { return s.cache.Pages(origin.Pages(s.store)) }

// close gives everything back. Nothing may be read any more.
func (s *source) close() {
	if s.cache != nil {
		s.cache.Close()
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
	info, err := os.Stat(folder)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", folder, reason(err))
	case !info.IsDir():
		return usageError{fmt.Errorf("%s: SOURCE is a folder with shards and xorbs, this is a file; xetfs inspect shows what is in it", folder)}
	}
	return nil
}

// bareFlag adds --bare.
func bareFlag(cmd *cobra.Command, bare *bool) {
	cmd.Flags().BoolVar(bare, "bare", false, "treat a catalog like any folder of shards and xorbs")
}

// withSource opens SOURCE for a command that ends by itself. Damage that is met on the
// way is noted on stderr.
func withSource(cmd *cobra.Command, folder string, bare bool, do func(context.Context, *source) error) error {
	s, err := openSource(cmd.Context(), folder, sourceOptions{
		bare:   bare,
		budget: divide(defaultMemory),
		log:    newNotes(cmd.ErrOrStderr(), cmd.CommandPath()),
	})
	if err != nil {
		return err
	}
	defer s.close()
	return do(cmd.Context(), s)
}
