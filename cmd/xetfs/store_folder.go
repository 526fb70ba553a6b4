package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
)

// storeEntries are the names in the folder of a store: the tops of keys, and the
// folders of a writer. A new file system adds lost+found.
var storeEntries = func() map[string]bool {
	entries := map[string]bool{"tmp": true, "locks": true, string(origin.ListingKey): true, "lost+found": true}
	for _, prefix := range []string{
		names.RefPrefix, names.VersionPrefix, names.PagePrefix, names.ShardPrefix, names.XorbPrefix, names.SnapshotPrefix,
		names.SymbolPrefix, names.SettingsPrefix, names.SweepPrefix, names.SweepListPrefix,
	} {
		top, _, _ := strings.Cut(prefix, "/")
		entries[top] = true
	}
	return entries
}()

// hasKeys reports whether a folder holds a catalog, or objects under their keys.
func hasKeys(folder string) bool {
	for _, prefix := range []string{names.SettingsPrefix, names.ShardPrefix, names.XorbPrefix} {
		if info, err := os.Stat(filepath.Join(folder, prefix)); err == nil && info.IsDir() {
			return true
		}
	}
	return false
}

// foreignEntry returns a name in a folder that no store contains. It returns "" if every name
// is known or the folder does not exist.
func foreignEntry(folder string) (string, error) {
	f, err := os.Open(folder)
	if errors.Is(err, iofs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", folder, ui.Reason(err))
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
			return "", fmt.Errorf("%s: %w", folder, ui.Reason(err))
		}
	}
}

// checkIsStore refuses a STORE to write to that is neither empty nor a store, so that no other
// folder is turned into one. A folder with shards or xorbs anywhere in it counts as a store.
// hint is what is wrong with the order of the arguments, or "": then no store is made at all.
func checkIsStore(ctx context.Context, store, hint string) error {
	if hasKeys(store) {
		return nil
	}
	foreign, err := foreignEntry(store)
	if err != nil {
		return err
	}
	if foreign == "" {
		return checkNewStore(store, hint)
	}
	found, err := dir.OpenBare(ctx, store)
	if err != nil {
		return err
	}
	defer found.Close()
	files, err := found.Files(ctx)
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.Err == nil && f.Kind != 0 {
			return nil
		}
	}
	if hint == "" {
		hint = "name a store, or an empty folder that becomes one"
	}
	return usageError{fmt.Errorf("%s: STORE is not empty and no store, it holds %q; %s", store, foreign, hint)}
}

// checkNewStore refuses to make a store where the arguments are in the wrong order, or in
// another store, whose writers would not know it.
func checkNewStore(store, hint string) error {
	if hint != "" {
		state := "is empty"
		if _, err := os.Lstat(store); err != nil {
			state = "does not exist"
		}
		return usageError{fmt.Errorf("%s: STORE %s; %s", store, state, hint)}
	}
	absolute, err := filepath.Abs(store)
	if err != nil {
		return err
	}
	if above, _ := storeAbove(absolute); above != "" {
		return usageError{fmt.Errorf("%s: would be a store inside the store %s; name that store, or a folder outside of it", store, above)}
	}
	return nil
}

// orderHint returns the right order of arguments if folder is a store, or "".
func orderHint(folder, command string, args ...string) string {
	if folder == "" || !hasKeys(folder) {
		return ""
	}
	for _, arg := range args {
		command += " " + ui.ShellWord(arg)
	}
	return fmt.Sprintf("%s is a store, and STORE comes first: %s", folder, command)
}

// mountOrderHint returns an error if the arguments of mount are swapped: the mountpoint is a
// store, and SOURCE is empty or does not exist.
func mountOrderHint(source, mountpoint string) error {
	if stack.IsWeb(source) {
		return nil
	}
	entries, err := os.ReadDir(source)
	empty := errors.Is(err, iofs.ErrNotExist) || err == nil && (len(entries) == 0 || len(entries) == 1 && entries[0].Name() == "lost+found")
	if !empty || !hasKeys(mountpoint) {
		return nil
	}
	state := "is empty"
	if err != nil {
		state = "does not exist"
	}
	return usageError{fmt.Errorf("%s is a store and %s %s; SOURCE comes first: xetfs mount %s %s",
		mountpoint, source, state, ui.ShellWord(mountpoint), ui.ShellWord(source))}
}
