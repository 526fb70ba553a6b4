package origin

import (
	"errors"
	iofs "io/fs"
	"syscall"

	"github.com/xetfs/xetfs/codec"
)

// ConcernsOneObject reports whether err of a store or source concerns one object, so that others
// can be read. The object is corrupt, missing or unreadable. A shortage, a permission and a
// server that does not answer concern all objects.
func ConcernsOneObject(err error) bool {
	var local *LocalError
	if errors.As(err, &local) {
		return !IsShortage(local.Err) && !errors.Is(local.Err, iofs.ErrPermission)
	}
	return !errors.Is(err, ErrUnavailable) && (errors.Is(err, codec.ErrCorrupt) || errors.Is(err, ErrNotFound))
}

// IsShortage reports whether err is a lack of memory or descriptors of this machine.
func IsShortage(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}
