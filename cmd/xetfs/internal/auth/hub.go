package auth

import (
	"cmp"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A Hub has the token of the Hugging Face Hub, where its own programs have it.
type Hub struct {
	value string // of the environment; "": that in file
	name  string // of the variable with the value
	file  string // "": no token
	named bool   // the environment names the file, so it must exist
}

// NewHub returns the token that the environment names, in the order of the Hub's own programs:
// HF_TOKEN, HF_TOKEN_PATH, the file token in HF_HOME.
func NewHub(getenv func(name string) string) Hub {
	if IsTrue(getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		return Hub{}
	}
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if value := strings.TrimSpace(getenv(name)); value != "" {
			return Hub{value: value, name: name}
		}
	}
	if file := expand(getenv("HF_TOKEN_PATH"), getenv); file != "" {
		return Hub{file: file, named: true}
	}
	if home := hubHome(getenv); home != "" {
		return Hub{file: filepath.Join(home, "token")}
	}
	return Hub{}
}

// hubHome returns the folder of the Hub's own programs; "": none.
func hubHome(getenv func(name string) string) string {
	if home := expand(getenv("HF_HOME"), getenv); home != "" {
		return home
	}
	if caches := expand(getenv("XDG_CACHE_HOME"), getenv); filepath.IsAbs(caches) {
		return filepath.Join(caches, "huggingface")
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".cache/huggingface")
	}
	return ""
}

// expand replaces ~ at the start of a path, and variables in it, as the Hub's own programs do. Unset variables
// remain.
func expand(path string, getenv func(name string) string) string {
	if home := getenv("HOME"); home != "" && (path == "~" || strings.HasPrefix(path, "~/")) {
		path = home + path[1:]
	}
	return os.Expand(path, func(name string) string { return cmp.Or(getenv(name), "$"+name) })
}

// IsTrue reports whether the value of a variable of the Hub switches something on.
func IsTrue(value string) bool {
	switch strings.ToLower(value) {
	case "1", "true", "yes", "on":
		return true
	}
	return false
}

// Token returns the token; "": none. It reads the file on each call, so that a token can be
// renewed. Errors do not contain the token.
func (h Hub) Token() (string, error) {
	if h.value != "" {
		return h.value, checkHubToken(h.value, h.name)
	}
	if h.file == "" {
		return "", nil
	}
	b, err := readFile(h.file, func(iofs.FileInfo) error { return nil })
	switch {
	case err != nil && !h.named && isUnreachable(err):
		return "", nil
	case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE):
		return "", fmt.Errorf("the token of the Hub: %w", err)
	case err != nil:
		return "", fmt.Errorf("the token of the Hub: %v", err) //nolint:errorlint // an absent file is no absent object
	}
	token := strings.TrimSpace(string(b))
	return token, checkHubToken(token, h.file)
}

// checkHubToken returns an error for a text that cannot be a token.
func checkHubToken(token, place string) error {
	if err := checkToken(token, 0); err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	return nil
}
