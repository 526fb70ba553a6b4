package daemon

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/fs/fusemount"
)

// A mount in a silent one, or over it, is refused. Other requests to a silent mount wait without end.
func TestPrepareSilent(t *testing.T) {
	if unix.Geteuid() != 0 || unix.Access("/dev/fuse", unix.R_OK|unix.W_OK) != nil {
		t.Skip("only root mounts without a helper, and only with /dev/fuse")
	}
	t.Parallel() // it waits for seconds
	dir := t.TempDir()
	silent, err := fusemount.Mount(dir, fusemount.Options{Source: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(silent.Unmount(true), unix.Close(silent.FD)); err != nil {
			t.Error(err)
		}
		silent.Close()
	}()
	for _, path := range []string{dir, filepath.Join(dir, "a/b")} {
		codectest.Within(t, codectest.Patience, path, func() {
			d := &Daemon{Mountpoint: path, Log: slog.New(slog.DiscardHandler)}
			if err := d.prepare(); !errors.Is(err, fusemount.ErrSilent) {
				t.Errorf("prepare %s: %v, want %v", path, err, fusemount.ErrSilent)
			}
		})
	}
}
