package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"golang.org/x/sys/unix"
)

// A mountpoint is the folder that a user named, as the kernel knows it.
type mountpoint struct {
	path string      // absolute, without links
	on   *mountEntry // what is mounted there; nil: nothing
}

// findMountpoint follows the links in path and looks what is mounted there.
func findMountpoint(path string) (mountpoint, error) {
	real, err := followLinks(path)
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		// A dead mount of another kind answers nothing; what leads to it does.
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
	if m.on, err = mountAt(real); err != nil {
		return mountpoint{}, err
	}
	return m, nil
}

// stale says whether an xetfs mount is there whose process has gone.
func (m mountpoint) stale() bool { return m.on != nil && m.on.Type == fsType && isStale(m.path) }

// maxLinks is how many links in a row are followed to a mount.
const maxLinks = 40

// followLinks follows the links in path. A mount of ours at their end is not asked what it
// is: that of a process which was stopped would never answer, one whose process has gone or
// that of another user would refuse to.
func followLinks(path string) (string, error) {
	for at, n := path, 0; n < maxLinks; n++ {
		parent, err := filepath.EvalSymlinks(filepath.Dir(at))
		if err != nil {
			break
		}
		at = filepath.Join(parent, filepath.Base(at))
		if on, err := mountAt(at); err == nil && on != nil && on.Type == fsType {
			return at, nil
		}
		target, err := os.Readlink(at)
		if err != nil || filepath.Clean(target) != target {
			break // a link before a .. would have to be followed first
		}
		if at = target; !filepath.IsAbs(target) {
			at = filepath.Join(parent, target)
		}
	}
	return filepath.EvalSymlinks(path)
}

// patience is how long a mount may take to say that it is there.
const patience = 5 * time.Second

// isStale says whether nobody serves the mount at path any more. The attributes of its
// root may still be known to the kernel, so it is asked for names. A process that was
// stopped does not answer at all; it is not gone, and until it goes on the mount is busy
// with this question.
func isStale(path string) bool {
	answer := make(chan error, 1)
	go func() {
		f, err := os.Open(path)
		if err == nil {
			_, err = f.Readdirnames(1)
			f.Close()
		}
		answer <- err
	}()
	select {
	case err := <-answer:
		return errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.ECONNABORTED) // the latter for a moment after
	case <-time.After(patience):
		return false
	}
}

// checkMountpoint says in one sentence what is wrong with a mountpoint and what to do.
func checkMountpoint(path string, nonempty bool) error {
	on, err := mountAt(path)
	switch {
	case err != nil:
		return err
	case on != nil && on.Type == fsType:
		return fmt.Errorf("%s: xetfs is mounted there already, with %s; first: xetfs umount %s", path, on.Source, ui.ShellWord(path))
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
	if nonempty {
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
	return fmt.Errorf("%s: is not empty, there is %q; mount on an empty folder, or hide what is there with --nonempty", path, names[0])
}

// checkApart refuses to mount a folder into itself, or over itself.
func checkApart(source, mountpoint string) error {
	real, err := filepath.EvalSymlinks(source)
	if err != nil {
		return fmt.Errorf("%s: %w", source, ui.Reason(err))
	}
	switch {
	case within(real, mountpoint):
		return fmt.Errorf("%s: the source %s lies in it, and the mount would hide it; mount elsewhere", mountpoint, source)
	case within(mountpoint, real):
		return fmt.Errorf("%s: lies in the source %s, and the mount would become part of it; mount elsewhere", mountpoint, source)
	}
	return nil
}

// checkFuse says what is missing on this machine to mount at all.
func checkFuse(path string, allowOther bool) error {
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return fmt.Errorf("%s: there is no /dev/fuse; load the kernel module (modprobe fuse), or give it to the container (--device /dev/fuse)", path)
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return fmt.Errorf("%s: the kernel does not know FUSE (/dev/fuse: %w); load the module: modprobe fuse", path, ui.Reason(err))
	case err != nil:
		return fmt.Errorf("%s: /dev/fuse: %w; this user or container may not use FUSE: chmod 666 /dev/fuse, or run as root", path, ui.Reason(err))
	}
	f.Close()
	if unix.Geteuid() == 0 {
		return nil
	}
	if _, err := fusermount(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if allowOther && !userAllowOther("/etc/fuse.conf") {
		return fmt.Errorf("%s: --allow-other is for root, unless /etc/fuse.conf has the line user_allow_other", path)
	}
	return nil
}

// fusermount finds the program by which users who are not root mount.
func fusermount() (string, error) {
	for _, name := range []string{"fusermount3", "fusermount"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("without root, fusermount3 is needed; install it: apt-get install fuse3")
}

// userAllowOther says whether the administrator lets users open their mounts to others.
func userAllowOther(conf string) bool {
	f, err := os.Open(conf)
	if err != nil {
		return false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.TrimSpace(lines.Text()) == "user_allow_other" {
			return true
		}
	}
	return false
}

// mountHint adds what to do to the errors of mount(2) that are understood.
func mountHint(path string, err error) error {
	if errors.Is(err, unix.EPERM) && unix.Geteuid() == 0 {
		return fmt.Errorf("%s: %w; a container needs the capability SYS_ADMIN to mount", path, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// lazyUnmount takes a mount out of the tree of files, whoever still uses it.
func lazyUnmount(path string) error { return unmount(path, true) }

// unmount takes the mount at path away: root by itself, others with fusermount3.
func unmount(path string, lazy bool) error {
	flags, args := unix.UMOUNT_NOFOLLOW, []string{"-u"}
	if lazy {
		flags |= unix.MNT_DETACH
		args = append(args, "-z")
	}
	err := unix.Unmount(path, flags)
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	program, err := fusermount()
	if err != nil {
		return err
	}
	out, err := exec.Command(program, append(args, "--", path)...).CombinedOutput() //nolint:noctx // it must end by itself, also when everything else is ending
	if err == nil {
		return nil
	}
	text := strings.TrimSpace(string(out))
	if strings.Contains(text, "busy") {
		return unix.EBUSY
	}
	return errors.New(text)
}
