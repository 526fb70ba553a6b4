package origintest

import (
	"bytes"
	"maps"
	"sync"

	"github.com/xetfs/xetfs/cache/origin/metacache"
)

// A Backend is a metacache.Backend in a map. Like a disk, it does not replace a value.
type Backend struct {
	mu    sync.Mutex
	pages map[[32]byte][]byte // guarded by mu
}

var _ metacache.Backend = (*Backend)(nil)

// Page implements metacache.Backend.
func (k *Backend) Page(h [32]byte) ([]byte, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b, ok := k.pages[h]
	return bytes.Clone(b), ok
}

// PutPage implements metacache.Backend.
func (k *Backend) PutPage(h [32]byte, b []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pages == nil {
		k.pages = map[[32]byte][]byte{}
	}
	if _, ok := k.pages[h]; !ok {
		k.pages[h] = bytes.Clone(b)
	}
	return nil
}

// ForgetPage implements metacache.Backend.
func (k *Backend) ForgetPage(h [32]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pages, h)
}

// Pages returns all values. They are shared with the Backend.
func (k *Backend) Pages() map[[32]byte][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.pages)
}

// Replace replaces a value, like damage on disk.
func (k *Backend) Replace(h [32]byte, b []byte) {
	k.ForgetPage(h)
	_ = k.PutPage(h, b)
}
