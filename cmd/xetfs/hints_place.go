package main

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/fusemount"
)

// hintedPlace adds to the error of a command what to type if a local path among its
// arguments does not exist.
func hintedPlace(cmd *cobra.Command, err error) error {
	var reported statusError
	if !errors.Is(err, iofs.ErrNotExist) || errors.As(err, &reported) {
		return err
	}
	args := cmd.Flags().Args()
	for _, i := range placesOf(cmd, len(args)) {
		if _, missing := os.Lstat(args[i]); !errors.Is(missing, iofs.ErrNotExist) || stack.IsWeb(args[i]) {
			continue
		}
		if hint := placeHint(cmd, args, i); hint != "" {
			return &hintedError{err, hint}
		}
		return err
	}
	return err
}

// A hintedError is an error with what to type.
type hintedError struct {
	err  error
	hint string // begins with "; "
}

func (e *hintedError) Error() string { return sentence(e.err) + e.hint }

func (e *hintedError) Unwrap() error { return e.err }

// placesOf returns which of the arguments of a command are local paths that must exist.
func placesOf(cmd *cobra.Command, args int) []int {
	first := ""
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if first == "" && !strings.HasPrefix(word, "-") {
			first = word
		}
	}
	var places []int
	switch {
	case args == 0:
	case cmd.Name() == "publish": // STORE is made
		for i := 2; i < args; i++ {
			places = append(places, i)
		}
	case cmd.Name() == "pack":
		for i := 1; i < args; i++ {
			places = append(places, i)
		}
	case slices.Contains([]string{"STORE", "SOURCE", "FILE", "MOUNTPOINT"}, first):
		places = append(places, 0)
	}
	return places
}

// placeHint is the end of a message about an argument that names nothing. It covers the order
// of the arguments, a path from a store to a symbol, and similar names.
func placeHint(cmd *cobra.Command, args []string, i int) string {
	path := args[i]
	takesStore := strings.Contains(cmd.Use, " STORE ") || strings.Contains(cmd.Use, " SOURCE ")
	if i == 0 && takesStore {
		for j, arg := range args[1:] {
			if hint := orderHint(arg, cmd.CommandPath(), append([]string{arg}, slices.Delete(slices.Clone(args), j+1, j+2)...)...); hint != "" {
				return "; " + hint
			}
		}
		if store, symbol := dir.StoreAbove(path); store != "" {
			words := ui.ShellWord(store) + " " + ui.ShellWord(symbol)
			if cmd.Name() == "mount" {
				words = "--symbol " + ui.ShellWord(symbol) + " " + ui.ShellWord(store)
			}
			return fmt.Sprintf("; %s is a store, and its symbols are no folders: type %s", store, words)
		}
	}
	if cmd.Name() == "publish" && names.CheckSymbol(path) == nil {
		if info, err := os.Stat(args[1]); err == nil && info.IsDir() {
			return fmt.Sprintf("; %s is a folder, and SYMBOL comes before FOLDER: xetfs publish %s %s %s",
				args[1], ui.ShellWord(args[0]), ui.ShellWord(path), ui.ShellWord(args[1]))
		}
	}
	return similarPlace(path)
}

// similarPlace names what is in the folder of a path that does not exist and may have been
// meant.
func similarPlace(path string) string {
	folder, _ := filepath.Split(filepath.Clean(path))
	f, err := os.Open(filepath.Clean(folder)) // "." for ""
	if err != nil {
		return ""
	}
	defer f.Close()
	present, err := f.Readdirnames(mostCompared)
	if err != nil {
		return ""
	}
	for i, name := range present {
		present[i] = folder + name
	}
	return didYouMean(filepath.Clean(path), slices.Values(present))
}

// noShard is the message about a SOURCE without shards.
func noShard(source string) string { return "there is no shard in " + ui.Printable(source) }

// emptyHint says what to type about an empty SOURCE: a mount of xetfs, or a folder that the
// user may want to publish.
func emptyHint(source string) string {
	if stack.IsWeb(source) {
		return ""
	}
	absolute, err := filepath.EvalSymlinks(source)
	if err == nil {
		absolute, err = filepath.Abs(absolute)
	}
	if err != nil {
		return ""
	}
	if m, err := fusemount.At(absolute); err == nil && m != nil && m.Type == fusemount.FSType {
		return fmt.Sprintf("; it is a mount of xetfs, with the SOURCE %s", ui.Printable(m.Source))
	}
	return fmt.Sprintf("; xetfs publish STORE SYMBOL %s stores its files", ui.ShellWord(source))
}
