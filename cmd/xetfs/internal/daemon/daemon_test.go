package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/fusemount"
)

// newDaemon returns a mount of an empty folder. Its start calls opening when it opens the tree.
func newDaemon(t *testing.T, opening func() error) *Daemon {
	t.Helper()
	if unix.Geteuid() != 0 || unix.Access("/dev/fuse", unix.R_OK|unix.W_OK) != nil {
		t.Skip("only root mounts without a helper, and only with /dev/fuse")
	}
	d := &Daemon{Mountpoint: t.TempDir(), Folder: t.TempDir(), Log: slog.New(slog.DiscardHandler), Ready: func([]string) {}}
	d.Open = func(ctx context.Context, _ string, _ func(string)) (*stack.Source, fs.Options, error) {
		src, err := stack.OpenSource(ctx, d.Folder, stack.Options{Budget: stack.DivideMemory(stack.DefaultMemory), Log: d.Log})
		if err == nil {
			src.Catalog = hookedCatalog{src.Catalog, opening}
		}
		return src, fs.Options{}, err
	}
	return d
}

// A hookedCatalog calls opening before it opens a tree.
type hookedCatalog struct {
	catalog.Catalog
	opening func() error
}

func (c hookedCatalog) Open(ctx context.Context, symbol string, at names.AsOf) (catalog.Tree, error) {
	if err := c.opening(); err != nil {
		return nil, err
	}
	return c.Catalog.Open(ctx, symbol, at)
}

// mountsAt returns the types of the mounts at a path, the uppermost last.
func mountsAt(t *testing.T, path string) (types []string) {
	t.Helper()
	_, err := fusemount.Find("self", func(e *fusemount.Entry) bool {
		if e.Point == path {
			types = append(types, e.Type)
		}
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
	return types
}

// A start that fails after the mount leaves no mount, also after a panic. The next signal ends the
// process then: closing SOURCE may take long.
func TestStartFails(t *testing.T) {
	for name, serve := range map[string]func() error{
		"error": func() error { return errors.New("no server") },
		"panic": func() error { panic("no server") },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t, func() error { return nil })
			var seen []string
			d.Serve = func(context.Context, *fs.Server) (func(), error) {
				seen = mountsAt(t, d.Mountpoint)
				return nil, serve()
			}
			status := 0
			ctx, stop := WithSignals(t.Context(), func(string) {}, func(s int) { status = s })
			defer stop()
			func() {
				defer func() {
					if r := recover(); (r != nil) != (name == "panic") {
						t.Errorf("panic: %v", r)
					}
				}()
				if _, _, err := d.start(ctx, make(chan os.Signal, 1)); err == nil {
					t.Error("start returned no error")
				}
			}()
			if left := mountsAt(t, d.Mountpoint); !slices.Equal(seen, []string{fusemount.FSType}) || len(left) > 0 {
				t.Errorf("mounted: %q, left: %q", seen, left)
			}
			if interrupterOf(ctx).interrupt(syscall.SIGTERM); status != 143 {
				t.Errorf("a signal ends the process with status %d, want 143", status)
			}
		})
	}
}

// A mount of another process, which was made while SOURCE was opened, is not covered.
func TestStartOccupied(t *testing.T) {
	var d *Daemon
	d = newDaemon(t, func() error { return unix.Mount("other", d.Mountpoint, "tmpfs", 0, "") })
	_, server, err := d.start(t.Context(), make(chan os.Signal, 1))
	found := mountsAt(t, d.Mountpoint)
	if server != nil {
		_ = server.Shutdown(0)
		d.stopGuard()
	}
	if umountErr := unix.Unmount(d.Mountpoint, unix.MNT_DETACH); umountErr != nil {
		t.Error(umountErr)
	}
	if !errors.As(err, new(*Error)) || !slices.Equal(found, []string{"tmpfs"}) {
		t.Errorf("start: %v, mounts are %q", err, found)
	}
}
