package daemon

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/fs/fusemount"
)

// Unmount removes the mount of xetfs at path, and waits until its servers have ended. It does not
// wait with lazy, which also removes a busy mount. It returns the path of the mount, without
// links. If a server does not end, Unmount passes the reason to notice and returns false. The readers of
// a killed server get ENOTCONN.
func Unmount(ctx context.Context, path string, lazy bool, notice func(text string)) (point string, ended bool, err error) {
	m, err := findXetfs(path)
	if err != nil {
		return "", false, err
	}
	served := servers(m)
	waiting, err := fusemount.OpenWaiting(unix.Mkdev(0, m.on.Minor))
	if err == nil {
		defer unix.Close(waiting)
	}
	switch err := unmountSoon(ctx, m, lazy); {
	case errors.Is(err, unix.EBUSY):
		return "", false, fmt.Errorf("%s: busy: a program has a file open in it or works there (fuser -vm %s shows which); end it, or use --lazy", path, ui.ShellWord(path))
	case errors.Is(err, unix.EPERM):
		return "", false, fmt.Errorf("%s: %w: it is not your mount", path, iofs.ErrPermission)
	case err != nil && unix.Geteuid() != 0:
		return "", false, explainUnmount(path, m, err)
	case err != nil:
		return "", false, fmt.Errorf("%s: %w", path, err)
	case lazy:
		return m.path, true, nil
	}
	ended, err = awaitServers(ctx, m, waiting, served, notice)
	return m.path, ended, err
}

// busyRetries and busyPause bound the wait for a process that uses the mount for a moment, as
// a path lookup does.
const (
	busyRetries = 5
	busyPause   = 50 * time.Millisecond
)

// unmountSoon removes a mount, also from killed processes. It retries a busy mount for a moment.
func unmountSoon(ctx context.Context, m mountpoint, lazy bool) error {
	for try := 0; ; try++ {
		endKilled(m)
		err := fusemount.Unmount(m.path, lazy)
		if try == busyRetries || !errors.Is(err, unix.EBUSY) || ctx.Err() != nil {
			return err
		}
		time.Sleep(busyPause)
	}
}

// explainUnmount returns the reason why fusermount3 did not unmount for an ordinary user.
func explainUnmount(path string, m mountpoint, err error) error {
	if owner := m.on.Owner; owner >= 0 && owner != int64(unix.Getuid()) {
		return fmt.Errorf("%s: %w: the mount belongs to user %d; only that user and root can unmount it", path, iofs.ErrPermission, owner)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// findXetfs finds the mount at path, which must be one of xetfs.
func findXetfs(path string) (mountpoint, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return mountpoint{}, err
	}
	m, err := findMountpoint(absolute)
	if err != nil {
		if _, missing := os.Lstat(absolute); errors.Is(missing, iofs.ErrNotExist) {
			err = fmt.Errorf("%s: %w", path, ui.Reason(missing))
		}
	}
	switch {
	case err != nil:
		return mountpoint{}, err
	case m.on == nil:
		return mountpoint{}, fmt.Errorf("%s: nothing is mounted there%s", path, umountHint(m.path))
	case m.on.Type != fusemount.FSType:
		return mountpoint{}, fmt.Errorf("%s: %s is mounted there, not xetfs; use umount", path, m.on)
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
