package main

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/daemon"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/fs/fusemount"
)

// newUmount is the command that ends a mount.
func newUmount() *cobra.Command {
	var lazy bool
	cmd := &cobra.Command{
		Use:     "umount MOUNTPOINT",
		Aliases: []string{"unmount"},
		Short:   "End a mount",
		Long: `Ends an xetfs mount and waits until its process has gone.

A container, or another mount namespace, may hold a copy of the mount. The command then
removes the mount here, names the process that still serves the copy, and ends.

While a program has a file of the mount open or works in one of its folders, the mount is
busy. With --lazy it disappears at once, and open files can be read until they are closed.`,
		Example: `  xetfs umount /mnt/x
  xetfs umount --lazy /mnt/x`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return umount(cmd, args[0], lazy)
		},
	}
	cmd.Flags().BoolVarP(&lazy, "lazy", "l", false, "also when it is busy: no new file can be opened, open ones stay")
	return cmd
}

// umount takes away the mount at path.
func umount(cmd *cobra.Command, path string, lazy bool) error {
	m, err := findOurs(path)
	if err != nil {
		return err
	}
	served := daemon.Servers(m)
	switch err := unmountSoon(cmd.Context(), m.Path, lazy); {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s: busy: a program has a file open in it or works there (fuser -vm %s shows which); end it, or use --lazy", path, ui.ShellWord(path))
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%s: %w: it is not your mount", path, iofs.ErrPermission)
	case err != nil && unix.Geteuid() != 0:
		return explainUnmount(path, m, err)
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	done := "unmounted " + ui.Printable(m.Path)
	if lazy {
		done += "; files that are open can be read until they are closed"
	} else if ended, err := daemon.AwaitServers(cmd.Context(), m, served, func(text string) {
		fmt.Fprintln(cmd.ErrOrStderr(), ui.NoticeLine(cmd.CommandPath(), text))
	}); err != nil || !ended {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), done)
	return err
}

// busyRetries and busyPause bound the wait for a process that uses the mount for a moment, as
// a path lookup does.
const (
	busyRetries = 5
	busyPause   = 50 * time.Millisecond
)

// unmountSoon is unmount, and retries a busy mount for a moment.
func unmountSoon(ctx context.Context, path string, lazy bool) error {
	err := fusemount.Unmount(path, lazy)
	for try := 0; try < busyRetries && errors.Is(err, unix.EBUSY) && ctx.Err() == nil; try++ {
		time.Sleep(busyPause)
		err = fusemount.Unmount(path, lazy)
	}
	return err
}

// explainUnmount returns the reason why fusermount3 did not unmount for an ordinary user.
func explainUnmount(path string, m daemon.Mountpoint, err error) error {
	if owner := m.On.Owner; owner >= 0 && owner != int64(unix.Getuid()) {
		return fmt.Errorf("%s: %w: the mount belongs to user %d; only that user and root can unmount it", path, iofs.ErrPermission, owner)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// findOurs finds the mount at path, which must be one of xetfs.
func findOurs(path string) (daemon.Mountpoint, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return daemon.Mountpoint{}, err
	}
	m, err := daemon.FindMountpoint(absolute)
	if err != nil {
		if _, missing := os.Lstat(absolute); errors.Is(missing, iofs.ErrNotExist) {
			err = fmt.Errorf("%s: %w", path, ui.Reason(missing))
		}
	}
	switch {
	case err != nil:
		return daemon.Mountpoint{}, err
	case m.On == nil:
		return daemon.Mountpoint{}, fmt.Errorf("%s: nothing is mounted there%s", path, umountHint(m.Path))
	case m.On.Type != fusemount.FSType:
		return daemon.Mountpoint{}, fmt.Errorf("%s: %s is mounted there, not xetfs; use umount", path, m.On)
	}
	return m, nil
}

// umountHint names the mount of xetfs that contains path or shows it. Without such a mount it
// returns "".
func umountHint(path string) string {
	var above, shows *fusemount.Entry
	_, err := fusemount.Find("self", func(e *fusemount.Entry) bool {
		switch {
		case e.Type != fusemount.FSType:
		case ui.Within(path, e.Point):
			above = e
		case e.Source == path:
			shows = e
		}
		return false
	})
	switch {
	case err != nil:
		return ""
	case above != nil:
		return fmt.Sprintf("; it is in the mount %s: xetfs umount %s", above.Point, ui.ShellWord(above.Point))
	case shows != nil:
		return fmt.Sprintf("; it is mounted at %s: xetfs umount %s", shows.Point, ui.ShellWord(shows.Point))
	}
	return ""
}
