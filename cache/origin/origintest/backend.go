package origintest

import (
	"bytes"
	"maps"
	"sync"

	"github.com/xetfs/xetfs/cache/origin/metacache"
)

// A Keeper is an origin.Keeper in a map. Like that of a disk it does not replace what it
// has.
type Keeper struct {
	mu    sync.Mutex
	pages map[[32]byte][]byte // guarded by mu
}

var _ metacache.Backend = (*Keeper)(nil)

// Page implements origin.Keeper.
func (k *Keeper) Page(h [32]byte) ([]byte, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b, ok := k.pages[h]
	return bytes.Clone(b), ok
}

// PutPage implements origin.Keeper.
func (k *Keeper) PutPage(h [32]byte, b []byte) error {
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

// ForgetPage implements origin.Keeper.
func (k *Keeper) ForgetPage(h [32]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pages, h)
}

// Pages returns what is kept. The values are shared with the Keeper.
func (k *Keeper) Pages() map[[32]byte][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.pages)
}

// Replace puts a value where another one is, as damage does.
func (k *Keeper) Replace(h [32]byte, b []byte) {
	k.ForgetPage(h)
	_ = k.PutPage(h, b)
}
