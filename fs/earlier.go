package fs

import (
	"context"
	"errors"
	"sync"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/codec/names"
)

const (
	// maxEarlier is how many earlier versions of a volume can be listed on. Each takes the
	// memory of a names.Row.
	maxEarlier = 1 << 16

	// maxOpenVersions is how many of them stay open.
	maxOpenVersions = 16
)

// errVersionForgotten is the error of a listing that is older than maxEarlier.
var errVersionForgotten = errors.New("the mount has forgotten the version of this listing; read the directory again")

// earlierVersions are the versions that a volume has shown before its current one, by number. A
// generated tree has no hash to open it again, so only maxOpenVersions of those are known.
type earlierVersions struct {
	mu   sync.Mutex
	rows []names.Row                  // a ring: number n is at n % maxEarlier; guarded by mu
	next uint64                       // number of the next row; guarded by mu
	open *lru.Cache[uint64, *version] // guarded by mu
}

// add stores a version that is no longer the current one.
func (ev *earlierVersions) add(old *version) {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	if ev.open == nil {
		ev.open = lru.New[uint64, *version](maxOpenVersions, nil)
	}
	ev.open.Remove(old.number)
	ev.open.Add(old.number, old, 1)
	ev.next = old.number + 1
	if i := int(old.number % maxEarlier); i < len(ev.rows) {
		ev.rows[i] = old.row
	} else {
		ev.rows = append(ev.rows, old.row)
	}
}

// versionAt returns a version that v has shown. It opens an earlier one by the hash of its root. A
// number that is not known is errVersionForgotten.
func (v *volume) versionAt(ctx context.Context, number uint64) (*version, error) {
	now := v.current.Load()
	if number == now.number {
		return now, nil
	}
	if number > now.number {
		return nil, errVersionForgotten
	}
	old, row := v.earlier.find(number)
	if old != nil {
		return old, nil
	}
	if v.reopen == nil || row.Root.IsZero() {
		return nil, errVersionForgotten
	}
	t, err := v.reopen(ctx, v.symbol, row)
	if err != nil {
		return nil, err
	}
	old = &version{vol: v, tree: t, row: row, number: number}
	v.earlier.mu.Lock()
	defer v.earlier.mu.Unlock()
	return v.earlier.open.Add(number, old, 1), nil
}

// find returns an open earlier version, or nil and its row. The row of an unknown number is empty.
func (ev *earlierVersions) find(number uint64) (*version, names.Row) {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	if old, ok := ev.open.Get(number); ok {
		return old, old.row
	}
	if ev.next-number > maxEarlier {
		return nil, names.Row{}
	}
	return nil, ev.rows[number%maxEarlier]
}
