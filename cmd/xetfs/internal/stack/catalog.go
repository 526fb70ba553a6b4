package stack

import (
	"context"
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// A CatalogReader is an open catalog without the data of its files.
type CatalogReader struct {
	*catalog.StoreCatalog
	Store    ReadStore
	NoShards bool // the chunks of files are unknown
	pages    page.Getter
	hub      *hubSource // nil: no repository of the Hub
}

// OpenCatalog opens the catalog of a SOURCE for reading.
func OpenCatalog(ctx context.Context, folder string, remote Remote) (*CatalogReader, error) {
	if IsHub(folder) {
		return openHubCatalog(ctx, folder, remote)
	}
	store, err := openToRead(folder, remote)
	if err != nil {
		return nil, err
	}
	r := &CatalogReader{Store: store, pages: origin.Pages(store)}
	if err = CheckCatalog(ctx, folder, store); err == nil {
		if r.StoreCatalog, err = catalog.Open(ctx, store, r.pages); err != nil {
			err = fmt.Errorf("%s: %w", folder, err)
		}
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// openHubCatalog is OpenCatalog of a repository of the Hub.
func openHubCatalog(ctx context.Context, address string, remote Remote) (*CatalogReader, error) {
	h, err := openHub(ctx, address, remote, false)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	r := &CatalogReader{NoShards: true, hub: h}
	if r.Store, err = dir.OpenReadOnly(h.Folder()); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	r.pages = origin.Pages(r.Store)
	if r.StoreCatalog, err = catalog.Open(ctx, r.Store, r.pages); err != nil {
		r.Close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return r, nil
}

// Close closes the store.
func (r *CatalogReader) Close() {
	r.Store.Close()
	if r.hub != nil {
		_ = r.hub.Close() // nothing was written
	}
}

// A CatalogWriter is an open catalog for changes.
type CatalogWriter struct {
	*writer.Writer
	Store WriteStore
	Pages page.Getter
}

func (w *CatalogWriter) Close() { w.Store.Close() }

// CheckCatalog refuses a store without a catalog.
func CheckCatalog(ctx context.Context, folder string, s origin.Store) error {
	is, err := catalog.Exists(ctx, s)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", folder, err)
	case !is:
		return ArgumentError{fmt.Errorf("%s: is no catalog; xetfs publish makes one", folder)}
	}
	return nil
}

// checkStore returns an error for a STORE that is no folder.
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

// OpenWriter opens the catalog in a STORE for changes. It creates none.
func OpenWriter(ctx context.Context, folder string, remote Remote) (*CatalogWriter, error) {
	if !isBucket(folder) {
		if err := checkStore(folder); err != nil {
			return nil, err
		}
	}
	store, err := openStore(folder, remote)
	if err != nil {
		return nil, err
	}
	w := &CatalogWriter{Store: store, Pages: origin.Pages(store)}
	if err = CheckCatalog(ctx, folder, store); err == nil {
		if w.Writer, err = writer.Open(ctx, store, w.Pages, writer.Options{Logger: remote.Log}); err != nil {
			err = fmt.Errorf("%s: %w", folder, err)
		}
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}
