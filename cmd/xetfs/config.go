package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// stateDir is where logs of background mounts lie, by the rules of XDG. It belongs to this
// user.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return checkOwn(filepath.Join(dir, "xetfs"))
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) { // a mount works in "/"
		return "", errors.New("neither XDG_STATE_HOME nor HOME is an absolute path")
	}
	return checkOwn(filepath.Join(home, ".local", "state", "xetfs"))
}

// cacheDir returns the folder of all caches, by the rules of XDG.
func cacheDir() (string, error) {
	if dir := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "xetfs"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", errors.New("neither XDG_CACHE_HOME nor HOME is an absolute path")
	}
	return filepath.Join(home, ".cache", "xetfs"), nil
}

// ownCacheDir is cacheDir if it belongs to this user.
func ownCacheDir() (string, error) {
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	return checkOwn(dir)
}

// checkOwn returns a folder that exists, or will exist, and belongs to this user. Nothing is
// written below the HOME of another user, which sudo may leave set.
func checkOwn(folder string) (string, error) {
	for path := folder; ; path = filepath.Dir(path) {
		var st unix.Stat_t
		err := unix.Stat(path, &st)
		switch uid := int(st.Uid); {
		case errors.Is(err, unix.ENOENT) && path != "/":
		case err != nil:
			return "", fmt.Errorf("%s: %w", path, err)
		case uid == os.Geteuid(), uid == 0 && path != folder: // /tmp, for example
			return folder, nil
		default:
			return "", fmt.Errorf("%s belongs to user %d", path, uid)
		}
	}
}
