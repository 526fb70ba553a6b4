package main

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// stateDir returns the folder for the logs of background mounts. It belongs to this user.
func stateDir() (string, error) {
	dir, err := xdgDir("XDG_STATE_HOME", ".local/state")
	if err != nil {
		return "", err
	}
	return checkOwn(dir)
}

// cacheDir returns the folder of all caches.
func cacheDir() (string, error) { return xdgDir("XDG_CACHE_HOME", ".cache") }

// xdgDir returns the folder of xetfs in the folder that a variable of the XDG specification
// names. Without the variable, that folder is standard in the home directory. Relative paths do
// not count, because a mount works in "/".
func xdgDir(variable, standard string) (string, error) {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, "xetfs"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", fmt.Errorf("neither %s nor HOME is an absolute path", variable)
	}
	return filepath.Join(home, standard, "xetfs"), nil
}

// certFolders is the variable with folders of certificates, between colons.
const certFolders = "SSL_CERT_DIR"

// fileVariables are the variables with paths of files that a remote store reads, also later.
var fileVariables = []string{
	"XETFS_TOKEN_FILE", "NETRC", "SSL_CERT_FILE", certFolders, "AWS_CA_BUNDLE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
	"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
	"HF_TOKEN_PATH", "HF_HOME",
}

// makeVariablesAbsolute replaces relative paths in the environment, because a mount works in "/".
func makeVariablesAbsolute() error {
	for _, name := range fileVariables {
		path := os.Getenv(name)
		if path == "" || strings.HasPrefix(name, "HF_") && strings.ContainsAny(path[:1], "~$") { // package auth expands it
			continue
		}
		path, err := absolute(path, name == certFolders)
		if err == nil {
			err = os.Setenv(name, path)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// absolute makes a path absolute, or each path of a list with colons. An empty path stays empty.
func absolute(text string, isList bool) (_ string, err error) {
	paths := []string{text}
	if isList {
		paths = strings.Split(text, ":")
	}
	for i, path := range paths {
		if path == "" {
			continue
		}
		if paths[i], err = filepath.Abs(path); err != nil {
			return "", err
		}
	}
	return strings.Join(paths, ":"), nil
}

// ownCacheDir returns cacheDir if it belongs to this user.
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

// existing returns the part of a path that exists.
func existing(path string) string {
	for {
		above := filepath.Dir(path)
		if _, err := os.Lstat(path); !errors.Is(err, iofs.ErrNotExist) || above == path {
			return path
		}
		path = above
	}
}
