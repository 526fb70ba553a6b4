package stack

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"

	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// CheckNewStore refuses a STORE that is not, and cannot become, a folder or a bucket.
func CheckNewStore(store string) error {
	if store == "" {
		return ArgumentError{errors.New("an empty path is no folder")}
	}
	if isBucket(store) {
		return CheckSource(store)
	}
	if err := checkLocal(store); err != nil {
		return err
	}
	info, err := os.Stat(store)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", store, ui.Reason(err))
	case !info.IsDir():
		return ArgumentError{fmt.Errorf("%s: STORE is a folder, this is a file", store)}
	}
	return nil
}

// CheckWriteStore refuses a STORE to write to that is neither empty nor a store, so that no other
// folder is turned into one. A folder with shards or xorbs anywhere in it counts as a store,
// and so does every prefix of a bucket.
// hint describes a wrong order of the arguments. With a hint, no store is made at all.
func CheckWriteStore(ctx context.Context, store, hint string) error {
	if IsAddress(store) || dir.HasKeys(store) {
		return nil
	}
	foreign, err := dir.ForeignEntry(store)
	if err != nil {
		return fmt.Errorf("%s: %w", store, ui.Reason(err))
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
	return ArgumentError{fmt.Errorf("%s: STORE is not empty and no store, it holds %q; %s", store, foreign, hint)}
}

// checkNewStore refuses to make a store where the arguments are in the wrong order, or in
// another store, whose writers would not know it.
func checkNewStore(store, hint string) error {
	if hint != "" {
		state := "is empty"
		if _, err := os.Lstat(store); err != nil {
			state = "does not exist"
		}
		return ArgumentError{fmt.Errorf("%s: STORE %s; %s", store, state, hint)}
	}
	absolute, err := filepath.Abs(store)
	if err != nil {
		return err
	}
	if above, _ := dir.StoreAbove(absolute); above != "" {
		return ArgumentError{fmt.Errorf("%s: would be a store inside the store %s; name that store, or a folder outside of it", store, above)}
	}
	return nil
}
