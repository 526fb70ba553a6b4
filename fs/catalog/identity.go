package catalog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// A Checker is a Catalog that can check that its store is still the same.
type Checker interface {
	Catalog

	// Check returns a *StoreError if the store is missing or another one. It does the same
	// if one of the symbols, which existed before, is missing. A deleted symbol still exists.
	Check(ctx context.Context, symbols ...string) error
}

var _ Checker = (*StoreCatalog)(nil)

// A StoreError reports that the place of a store holds no catalog, or another one: an
// unmounted disk, a deleted folder. It is origin.ErrUnavailable.
type StoreError struct {
	ID    string // of the catalog that was opened
	Found string // id of the other catalog; "": none
	why   string
}

// Error implements error.
func (e *StoreError) Error() string { return e.why }

// Unwrap makes it origin.ErrUnavailable, without the text of that error.
func (e *StoreError) Unwrap() error { return origin.ErrUnavailable }

// identityAge is how long a check of a remote store is valid. A local one is checked anew.
const identityAge = time.Second

// An identity is the last check of the settings in the store.
type identity struct {
	mu      sync.Mutex
	tag     origin.Tag // guarded by mu
	checked time.Time  // the last time they were those of this catalog; guarded by mu
}

// Check implements Checker.
func (c *StoreCatalog) Check(ctx context.Context, symbols ...string) error {
	if err := c.checkPlace(ctx); err != nil {
		return err
	}
	for _, symbol := range symbols {
		_, err := c.store.Size(ctx, names.RefKey(symbol))
		if errors.Is(err, origin.ErrNotFound) {
			return &StoreError{ID: c.settings.ID, why: fmt.Sprintf("%s: its reference is missing in the store", symbol)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sameStore is Check after a read. A remote store that was checked a moment ago is not
// checked again.
func (c *StoreCatalog) sameStore(ctx context.Context) error {
	if !origin.Local(c.store) {
		c.identity.mu.Lock()
		age := time.Since(c.identity.checked)
		c.identity.mu.Unlock()
		if age < identityAge {
			return nil
		}
	}
	return c.checkPlace(ctx)
}

func (c *StoreCatalog) checkPlace(ctx context.Context) error {
	err := origin.Relocate(ctx, c.store, func(ctx context.Context, s origin.Store) error {
		_, err := c.checkSettings(ctx, s, "")
		return err
	})
	if err != nil {
		return c.gone(err)
	}
	c.identity.mu.Lock()
	tag := c.identity.tag
	c.identity.mu.Unlock()
	if tag, err = c.checkSettings(ctx, c.store, tag); err != nil {
		return c.gone(err)
	}
	c.identity.mu.Lock()
	defer c.identity.mu.Unlock()
	c.identity.tag, c.identity.checked = tag, time.Now()
	return nil
}

// checkSettings compares the id in a store with that of this catalog.
func (c *StoreCatalog) checkSettings(ctx context.Context, s origin.Store, seen origin.Tag) (origin.Tag, error) {
	var settings names.Settings
	tag, err := ReadDocument(ctx, s, names.SettingsKey(), seen, &settings)
	switch {
	case errors.Is(err, origin.ErrUnchanged):
		return seen, nil
	case err != nil:
		return "", err
	case settings.ID != c.settings.ID:
		return "", &StoreError{ID: c.settings.ID, Found: settings.ID, why: fmt.Sprintf(
			"the catalog with id %s is gone, and one with id %s is in its place", c.settings.ID, settings.ID)}
	}
	return tag, nil
}

// gone returns a StoreError for an error that reports a missing catalog.
func (c *StoreCatalog) gone(err error) error {
	if errors.Is(err, origin.ErrNotFound) {
		return &StoreError{ID: c.settings.ID, why: fmt.Sprintf("the catalog with id %s is gone, and nothing is in its place", c.settings.ID)}
	}
	return err
}
