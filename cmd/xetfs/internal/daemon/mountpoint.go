package daemon

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/fs/fusemount"
)

// A mountpoint is a folder and its entry in the mount table.
type mountpoint struct {
	path string           // absolute, without links
	on   *fusemount.Entry // the mount there; nil: none
}

// findMountpoint follows the links in path and finds the mount there.
func findMountpoint(path string) (mountpoint, error) {
	real, err := fusemount.FollowLinks(path)
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		// A dead mount of another kind does not answer; its parent does.
		if parent, parentErr := filepath.EvalSymlinks(filepath.Dir(path)); parentErr == nil {
			real, err = filepath.Join(parent, filepath.Base(path)), nil
		}
	}
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return mountpoint{}, fmt.Errorf("%s: there is no such folder; make it first: mkdir -p %s", path, ui.ShellWord(path))
	case err != nil:
		return mountpoint{}, fmt.Errorf("%s: %w", path, ui.Reason(err))
	}
	m := mountpoint{path: real}
	if m.on, err = fusemount.At(real); err != nil {
		return mountpoint{}, err
	}
	return m, nil
}

// findForMount is findMountpoint for a new mount. It first probes the mount of xetfs above path. Any
// other request below a silent mount would wait without end.
func findForMount(path string) (mountpoint, error) {
	above, err := fusemount.Above(path)
	if err == nil && above != nil && !endKilled(mountpoint{path: above.Point, on: above}) && errors.Is(fusemount.Probe(above.Point), fusemount.ErrSilent) {
		return mountpoint{}, fmt.Errorf("%s: %w; see whether its process was stopped, or remove it with xetfs umount %s", above.Point, fusemount.ErrSilent, ui.ShellWord(above.Point))
	}
	return findMountpoint(path)
}

// isStale reports whether the mount is one of xetfs without a process. Killed processes that cannot end
// are none.
func (m mountpoint) isStale() bool {
	return m.on != nil && m.on.Type == fusemount.FSType && (endKilled(m) || fusemount.IsStale(m.path))
}

// A MountedError means that Source is mounted at Path.
type MountedError struct {
	Path, Source string
}

// Error implements error.
func (e *MountedError) Error() string {
	return fmt.Sprintf("%s: xetfs is mounted there already, with %s; first: xetfs umount %s", e.Path, e.Source, ui.ShellWord(e.Path))
}

// CheckMountpoint returns an error with the next step if nothing can be mounted at path. For a
// mount of xetfs it is a MountedError.
func CheckMountpoint(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	m, err := findForMount(path)
	switch {
	case err != nil:
		return err
	case m.isStale():
		return fmt.Errorf("%s: the mount has no server; remove it with xetfs umount %s", path, ui.ShellWord(path))
	}
	return checkMountpoint(m.path, false)
}

// checkMountpoint returns an error with the next step if path cannot be a mountpoint.
func checkMountpoint(path string, nonempty bool) error {
	on, err := fusemount.At(path)
	switch {
	case err != nil:
		return err
	case on != nil && on.Type == fusemount.FSType:
		return &MountedError{Path: path, Source: on.Source}
	case on != nil:
		return fmt.Errorf("%s: %s is mounted there already; choose another folder", path, on)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("%s: %w; choose another folder", path, ui.Reason(err))
	}
	if !info.IsDir() {
		return fmt.Errorf("%s: is not a folder; name an empty folder to mount on", path)
	}
	if unix.Geteuid() != 0 && unix.Access(path, unix.W_OK) != nil {
		return fmt.Errorf("%s: only root may mount on a folder that you may not write to; choose one of yours", path)
	}
	if nonempty || fusemount.IsAutomount(path) { // a listing could wait for the automounter
		return nil
	}
	return checkEmpty(path)
}

func checkEmpty(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, ui.Reason(err))
	}
	defer f.Close()
	names, err := f.Readdirnames(1)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", path, ui.Reason(err))
	}
	return fmt.Errorf("%s: is not empty, there is %q; mount on an empty folder, or hide the content with --nonempty", path, names[0])
}

// checkApart refuses to mount a folder into itself, or over itself.
func checkApart(source, mountpoint string) error {
	real, err := filepath.EvalSymlinks(source)
	if err != nil {
		return fmt.Errorf("%s: %w", source, ui.Reason(err))
	}
	switch {
	case ui.Within(real, mountpoint):
		return fmt.Errorf("%s: the source %s is in it, and the mount would hide it; mount elsewhere", mountpoint, source)
	case ui.Within(mountpoint, real):
		return fmt.Errorf("%s: is in the source %s, and the mount would become part of it; mount elsewhere", mountpoint, source)
	}
	return nil
}
