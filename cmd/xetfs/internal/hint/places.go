package hint

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
)

// A Call is one command line.
type Call struct {
	Command   string // with the name of the program, such as "xetfs snapshot list"
	Usage     string // name and arguments of the command, such as "publish STORE SYMBOL FOLDER"
	Args      []string
	IsAddress func(arg string) bool // reports whether an argument is an address
}

func (c Call) name() string {
	name, _, _ := strings.Cut(c.Usage, " ")
	return name
}

// Missing returns the end of a message about the first local path among the arguments that does
// not exist. It covers the order of the arguments, a path from a store to a symbol, and similar
// names. The result is "" if no path is missing or nothing is similar.
func Missing(c Call) string {
	for _, i := range c.places() {
		if _, err := os.Lstat(c.Args[i]); errors.Is(err, iofs.ErrNotExist) && (i > 0 || !c.IsAddress(c.Args[i])) {
			return c.missing(i)
		}
	}
	return ""
}

// places returns the indexes of the arguments that are local paths and must exist.
func (c Call) places() []int {
	first := ""
	for _, word := range strings.Fields(c.Usage)[1:] {
		if first == "" && !strings.HasPrefix(word, "-") {
			first = word
		}
	}
	from, to := 0, 0
	switch {
	case c.name() == "publish": // it creates STORE
		from, to = 2, len(c.Args)
	case c.name() == "pack":
		from, to = 1, len(c.Args)
	case slices.Contains([]string{"STORE", "SOURCE", "FILE", "MOUNTPOINT"}, first):
		to = min(1, len(c.Args))
	}
	var places []int
	for i := from; i < to; i++ {
		places = append(places, i)
	}
	return places
}

// missing returns the end of a message about argument i, which does not exist.
func (c Call) missing(i int) string {
	path := c.Args[i]
	if c.IsAddress(path) {
		return c.address(i)
	}
	takesStore := strings.Contains(c.Usage, " STORE ") || strings.Contains(c.Usage, " SOURCE ")
	if i == 0 && takesStore {
		if hint := c.firstArgument(); hint != "" {
			return hint
		}
	}
	if c.name() == "publish" && names.CheckSymbol(path) == nil {
		if info, err := os.Stat(c.Args[1]); err == nil && info.IsDir() {
			return fmt.Sprintf("; %s is a folder, and SYMBOL comes before FOLDER: xetfs publish %s %s %s",
				c.Args[1], ui.ShellWord(c.Args[0]), ui.ShellWord(path), ui.ShellWord(c.Args[1]))
		}
	}
	return similarPlace(path)
}

// address covers an address in the place of a folder.
func (c Call) address(i int) string {
	if c.IsAddress(c.Args[0]) {
		return "; FOLDER is local, not an address"
	}
	return "; " + c.order(i)
}

// order returns the right order if argument i is a store, or "".
func (c Call) order(i int) string {
	arg := c.Args[i]
	return Order(arg, c.Command, append([]string{arg}, slices.Delete(slices.Clone(c.Args), i, i+1)...)...)
}

// firstArgument covers a missing STORE or SOURCE: a later argument is a store, or a folder above
// the path is one.
func (c Call) firstArgument() string {
	for i := range c.Args[1:] {
		if order := c.order(i + 1); order != "" {
			return "; " + order
		}
	}
	store, symbol := dir.StoreAbove(c.Args[0])
	if store == "" {
		return ""
	}
	words := ui.ShellWord(store) + " " + ui.ShellWord(symbol)
	if c.name() == "mount" {
		words = "--symbol " + ui.ShellWord(symbol) + " " + ui.ShellWord(store)
	}
	return fmt.Sprintf("; %s is a store, and its symbols are no folders: type %s", store, words)
}

// similarPlace returns the end of a message about a path that does not exist: similar names in
// its folder.
func similarPlace(path string) string {
	folder, _ := filepath.Split(filepath.Clean(path))
	f, err := os.Open(filepath.Clean(folder)) // "." for ""
	if err != nil {
		return ""
	}
	defer f.Close()
	present, err := f.Readdirnames(maxCompared)
	if err != nil {
		return ""
	}
	for i, name := range present {
		present[i] = folder + name
	}
	return didYouMean(filepath.Clean(path), slices.Values(present))
}

// isStore reports whether a word is a folder with objects, or an address that may be printed.
func isStore(word string) bool {
	if strings.Contains(word, "://") {
		return !strings.ContainsAny(word, "@?#")
	}
	return word != "" && dir.HasKeys(word)
}

// Order returns the right order of arguments if folder is a store, or "". The text has no "; ".
func Order(folder, command string, args ...string) string {
	if !isStore(folder) {
		return ""
	}
	for _, arg := range args {
		command += " " + ui.ShellWord(arg)
	}
	return fmt.Sprintf("%s is a store, and STORE comes first: %s", folder, command)
}

// MountOrder returns the right order if the arguments of mount are swapped, or "". In that case
// the mountpoint is a store, and SOURCE is empty or does not exist. The text has no "; ".
func MountOrder(source, mountpoint string) string {
	entries, err := os.ReadDir(source)
	empty := errors.Is(err, iofs.ErrNotExist) || err == nil && (len(entries) == 0 || len(entries) == 1 && entries[0].Name() == "lost+found")
	if !empty || !dir.HasKeys(mountpoint) {
		return ""
	}
	state := "is empty"
	if err != nil {
		state = "does not exist"
	}
	return fmt.Sprintf("%s is a store and %s %s; SOURCE comes first: xetfs mount %s %s",
		mountpoint, source, state, ui.ShellWord(mountpoint), ui.ShellWord(source))
}
