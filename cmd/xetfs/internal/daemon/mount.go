package daemon

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/fs"
)

// mount mounts an open SOURCE. It sends no request to the new mount: fs.Server.RefusePoll has
// the reason.
func (d *Daemon) mount(ctx context.Context, src *stack.Source, o fs.Options) (*fs.Server, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	o.FSName, o.AllowOther, o.Logger, o.Start = d.Source, d.AllowOther, d.Log, ctx
	if d.Folder != "" { // each call of a web server has its own limit
		limited, cancel := context.WithTimeout(ctx, stack.ReadLimit)
		defer cancel()
		o.Start = limited
	}
	var occupied error
	o.Check = func() error {
		occupied = d.checkFree()
		return occupied
	}
	server, err := fs.Mount(d.Mountpoint, src.Catalog, src.Reader, o)
	switch {
	case occupied != nil:
		return nil, &Error{occupied}
	case errors.Is(err, origin.ErrUnavailable):
		return nil, fmt.Errorf("%s: %w", d.Source, err)
	case err != nil:
		return nil, mountError(d.Mountpoint, err)
	}
	return server, nil
}

// mountError adds the path and, if known, the next step to an error of mount(2).
func mountError(path string, err error) error {
	if errors.Is(err, unix.EPERM) && unix.Geteuid() == 0 {
		return &Error{fmt.Errorf("%s: %w; a container needs the capability SYS_ADMIN to mount", path, err)}
	}
	return &Error{fmt.Errorf("%s: %w", path, err)}
}

// warnings returns the warnings about a new mount that are not in the log: damage, and a SOURCE
// without content.
func (d *Daemon) warnings(ctx context.Context, src *stack.Source, o fs.Options) []string {
	if o.Symbol != "" || o.Snapshot != "" {
		return nil // the name was found
	}
	if src.Bare == nil {
		for _, err := range src.Catalog.Symbols(ctx) {
			if err != nil {
				return []string{err.Error()}
			}
			return nil
		}
		return []string{fmt.Sprintf("there is no symbol in %s yet, so the mount is empty", ui.Printable(d.Source))}
	}
	var w []string
	if n := len(src.Bare.Damaged()); n > 0 {
		w = append(w, fmt.Sprintf("damaged shards that are left out: %d; xetfs verify %s names the places", n, ui.ShellWord(d.Source)))
	}
	switch empty, err := src.IsEmpty(ctx); {
	case err != nil:
		w = append(w, err.Error())
	case empty:
		w = append(w, stack.NoShard(d.Source)+", so the mount is empty; shards that come later are seen when it is mounted anew"+stack.EmptyHint(d.Source))
	}
	return w
}
