package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
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

// openWriting opens the catalog in a folder to change it. It makes none.
func openWriting(cmd *cobra.Command, folder string) (*writing, error) {
	if err := checkStore(folder); err != nil {
		return nil, err
	}
	store, err := dir.Open(folder)
	if err != nil {
		return nil, err
	}
	w := &writing{store: store, pages: origin.Pages(store)}
	if err = isCatalog(cmd.Context(), folder, store); err == nil {
		log := newNotes(cmd.ErrOrStderr(), cmd.CommandPath())
		if w.Writer, err = writer.Open(cmd.Context(), store, w.pages, writer.Options{Logger: log}); err != nil {
			err = fmt.Errorf("%s: %w", folder, err)
		}
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *writing) close() { w.store.Close() }

// isCatalog refuses a store without a catalog.
func isCatalog(ctx context.Context, folder string, s origin.Store) error {
	is, err := catalog.Exists(ctx, s)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", folder, err)
	case !is:
		return usageError{fmt.Errorf("%s: is no catalog; xetfs publish makes one", folder)}
	}
	return nil
}

// checkStore says what is wrong with a STORE that is no folder.
func checkStore(folder string) error {
	if folder == "" {
		return usageError{errors.New("an empty path is no folder")}
	}
	if err := checkLocal(folder); err != nil {
		return err
	}
	err := checkFolder(folder)
	var usage usageError
	if errors.As(err, &usage) {
		return usageError{fmt.Errorf("%s: STORE is a folder, this is a file", folder)}
	}
	return err
}

// withCatalog opens the catalog in STORE for a command that looks at it.
func withCatalog(cmd *cobra.Command, folder string, do func(context.Context, *reading) error) error {
	c, err := openCatalog(cmd.Context(), folder, waitNotice(cmd.ErrOrStderr(), cmd.CommandPath(), folder))
	if err != nil {
		return err
	}
	defer c.close()
	return hinted(cmd.Context(), c.StoreCatalog, folder, do(cmd.Context(), c))
}

// withPublisher opens the catalog in STORE for a command that changes it.
func withPublisher(cmd *cobra.Command, folder string, do func(context.Context, *writing) error) error {
	w, err := openWriting(cmd, folder)
	if err != nil {
		return err
	}
	defer w.close()
	if err := do(cmd.Context(), w); err != nil {
		return hinted(cmd.Context(), w.Catalog(), folder, err)
	}
	renewListing(cmd.Context(), w.store, func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), ui.NoticeLine(cmd.CommandPath(), text)) })
	return nil
}
