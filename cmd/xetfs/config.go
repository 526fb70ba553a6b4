package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
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

// verifyFlag is --verify: always or never.
type verifyFlag string

const (
	verifyAlways verifyFlag = "always"
	verifyNever  verifyFlag = "never"
)

// String implements pflag.Value.
func (v *verifyFlag) String() string { return string(*v) }

// Set implements pflag.Value.
func (v *verifyFlag) Set(text string) error {
	return oneOf((*string)(v), text, string(verifyAlways), string(verifyNever))
}

// Type implements pflag.Value.
func (v *verifyFlag) Type() string { return "WHEN" }

// openFlag is --open: auto, stateless or handles.
type openFlag string

const (
	openAuto      openFlag = "auto"
	openStateless openFlag = "stateless"
	openHandles   openFlag = "handles"
)

// stateless reports whether the kernel opens files without a message to xetfs. A source without
// readahead loses nothing, and a small file saves two of three messages.
func (o openFlag) stateless(near bool) bool {
	return o == openStateless || o == openAuto && near
}

// String implements pflag.Value.
func (o *openFlag) String() string { return string(*o) }

// Set implements pflag.Value.
func (o *openFlag) Set(text string) error {
	return oneOf((*string)(o), text, string(openAuto), string(openStateless), string(openHandles))
}

// Type implements pflag.Value.
func (o *openFlag) Type() string { return "HOW" }

// oneOf sets a flag to one of a few words.
func oneOf(flag *string, text string, words ...string) error {
	for _, w := range words {
		if text == w {
			*flag = text
			return nil
		}
	}
	return fmt.Errorf("want %s", ui.AnyOf(words))
}
