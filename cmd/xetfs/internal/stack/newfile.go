package stack

import (
	"fmt"

	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// A NewFile is a file that a mount makes besides its cache.
type NewFile struct {
	Name string // "log file"
	Path string // absolute
	Flag string // "--log-file"
}

// CheckApart refuses a file in the mount, where it could not be written, and one in a store, where it
// could damage an object.
func (f NewFile) CheckApart(source, mountpoint string) error {
	switch {
	case ui.Within(f.Path, mountpoint):
		return MountError{fmt.Errorf("%s %s: is inside the mountpoint, where nothing can be written; name another with %s", f.Name, f.Path, f.Flag)}
	case !IsAddress(source) && ui.Within(f.Path, source) && dir.HasKeys(source):
		return MountError{fmt.Errorf("%s %s: is inside the store, to which a mount never writes; name another with %s", f.Name, f.Path, f.Flag)}
	}
	return nil
}
