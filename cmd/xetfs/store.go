package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// A reading is a catalog that is looked at, without the data of its files.
type reading struct {
	*catalog.StoreCatalog
	store readStore
	pages page.Getter
}

// openCatalog opens the catalog in a folder. Nothing is written there. waiting is that of
// wrap.Limits.
func openCatalog(ctx context.Context, folder string, waiting func()) (*reading, error) {
	store, err := openToRead(folder, waiting)
	if err != nil {
		return nil, err
	}
	r := &reading{store: store, pages: origin.Pages(store)}
	if err = isCatalog(ctx, folder, store); err == nil {
		if r.StoreCatalog, err = catalog.Open(ctx, store, r.pages); err != nil {
			err = fmt.Errorf("%s: %w", folder, err)
		}
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *reading) close() { r.store.Close() }

// A writing is a catalog that is changed.
type writing struct {
	*writer.Writer
	store *dir.Keyed
	pages page.Getter
}

func (w *writing) close() { w.store.Close() }

// isCatalog refuses a store without a catalog.
func isCatalog(ctx context.Context, folder string, s origin.Store) error {
	is, err := catalog.Exists(ctx, s)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", folder, err)
	case !is:
		return ArgumentError{fmt.Errorf("%s: is no catalog; xetfs publish makes one", folder)}
	}
	return nil
}

// checkStore says what is wrong with a STORE that is no folder.
func checkStore(folder string) error {
	if folder == "" {
		return ArgumentError{errors.New("an empty path is no folder")}
	}
	if err := checkLocal(folder); err != nil {
		return err
	}
	err := checkFolder(folder)
	var usage ArgumentError
	if errors.As(err, &usage) {
		return ArgumentError{fmt.Errorf("%s: STORE is a folder, this is a file", folder)}
	}
	return err
}

// openWriting opens the catalog in a folder to change it. It makes none.
func openWriting(ctx context.Context, folder string, log *slog.Logger) (*writing, error) {
	if err := checkStore(folder); err != nil {
		return nil, err
	}
	store, err := dir.Open(folder)
	if err != nil {
		return nil, err
	}
	w := &writing{store: store, pages: origin.Pages(store)}
	if err = isCatalog(ctx, folder, store); err == nil {
		if w.Writer, err = writer.Open(ctx, store, w.pages, writer.Options{Logger: log}); err != nil {
			err = fmt.Errorf("%s: %w", folder, err)
		}
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}
