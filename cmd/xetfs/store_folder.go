package main

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"

	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// orderHint returns the right order of arguments if folder is a store, or "".
func orderHint(folder, command string, args ...string) string {
	if folder == "" || !dir.HasKeys(folder) {
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
	if !empty || !dir.HasKeys(mountpoint) {
		return nil
	}
	state := "is empty"
	if err != nil {
		state = "does not exist"
	}
	return usageError{fmt.Errorf("%s is a store and %s %s; SOURCE comes first: xetfs mount %s %s",
		mountpoint, source, state, ui.ShellWord(mountpoint), ui.ShellWord(source))}
}
