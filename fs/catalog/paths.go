package catalog

import (
	"slices"
	"strings"
)

// Outermost returns paths of a tree without repetitions and without those that are below another one.
// "" is the whole tree. It changes the slice.
func Outermost(paths []string) []string {
	named := map[string]bool{}
	for _, p := range paths {
		named[p] = true
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(paths, func(p string) bool {
		isRepeated := seen[p]
		seen[p] = true
		return isRepeated || isBelow(p, named)
	})
}

// isBelow reports whether a path is below one of some folders.
func isBelow(p string, folders map[string]bool) bool {
	for i := len(p); i > 0; {
		i = max(strings.LastIndexByte(p[:i], '/'), 0)
		if folders[p[:i]] {
			return true
		}
	}
	return false
}
