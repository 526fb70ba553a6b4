package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/reconstruct"
)

// A source is the whole stack below the commands: from the folder that SOURCE names up
// to names and bytes of files.
//
//	dir → origin.Objects → cache.New → reconstruct.New
//	dir → catalog.Bare
type source struct {
	store   *dir.Store
	cache   *cache.Cache
	reader  *reconstruct.Reader
	catalog *catalog.BareCatalog
}

// sourceOptions tune openSource.
type sourceOptions struct {
	budget   budget
	noVerify bool
	log      *slog.Logger
}

// openSource builds the stack over a folder.
func openSource(ctx context.Context, folder string, o sourceOptions) (*source, error) {
	if err := checkFolder(folder); err != nil {
		return nil, err
	}
	store, err := dir.OpenBare(ctx, folder)
	if err != nil {
		return nil, err
	}
	s := &source{store: store}
	if err := s.build(ctx, o); err != nil {
		s.close()
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return s, nil
}

func (s *source) build(ctx context.Context, o sourceOptions) error {
	var err error
	if s.catalog, err = catalog.Bare(ctx, s.store, catalog.BareOptions{Logger: o.log}); err != nil {
		return err
	}
	objects := origin.Objects(s.store, o.budget.infos)
	if o.log.Enabled(ctx, slog.LevelDebug) { // it costs, also where nobody listens
		objects = origin.Log(objects, o.log)
	}
	if s.cache, err = cache.New(objects, o.budget.cacheOptions(o.noVerify, o.log)); err != nil {
		return err
	}
	s.reader = reconstruct.New(s.cache, reconstruct.Options{})
	return nil
}

// close gives everything back. Nothing may be read any more.
func (s *source) close() {
	if s.cache != nil {
		s.cache.Close()
	}
	s.store.Close()
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
