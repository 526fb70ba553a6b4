package dir

import (
	"errors"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// storeEntries are the names in the folder of a store: the tops of keys, and the
// folders of a writer. A new file system adds lost+found.
var storeEntries = func() map[string]bool {
	entries := map[string]bool{"tmp": true, "locks": true, partsDir: true, string(listing.Key): true, "lost+found": true}
	for _, prefix := range names.Prefixes() {
		top, _, _ := strings.Cut(prefix, "/")
		entries[top] = true
	}
	return entries
}()

// HasKeys reports whether a folder contains a catalog, or objects under their keys.
func HasKeys(folder string) bool {
	for _, prefix := range []string{names.SettingsPrefix, names.ShardPrefix, names.XorbPrefix} {
		if info, err := os.Stat(filepath.Join(folder, prefix)); err == nil && info.IsDir() {
			return true
		}
	}
	return false
}

// StoreAbove returns the store above a path, and the rest of the path. Without a store it
// returns "". The path need not exist.
func StoreAbove(path string) (store, rest string) {
	path = filepath.Clean(path)
	for above := filepath.Dir(path); ; above = filepath.Dir(above) {
		if HasKeys(above) {
			rest, err := filepath.Rel(above, path)
			if err != nil {
				return "", ""
			}
			return above, rest
		}
		if above == filepath.Dir(above) {
			return "", ""
		}
	}
}

// ForeignEntry returns a name in a folder that no store contains. It returns "" if every name
// is known or the folder does not exist.
func ForeignEntry(folder string) (string, error) {
	f, err := os.Open(folder)
	if errors.Is(err, iofs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	for {
		entries, err := f.Readdirnames(100)
		for _, name := range entries {
			if !storeEntries[name] {
				return name, nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return "", nil
		case err != nil:
			return "", err
		}
	}
}
