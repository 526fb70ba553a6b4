package ui

import (
	"path/filepath"
	"unicode/utf8"
)

// Within reports whether path is dir or below it. Both must be absolute and clean.
func Within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// OddBytes returns the bytes of a path that is no UTF-8, which JSON cannot hold; else nil.
func OddBytes(path string) []byte {
	if utf8.ValidString(path) {
		return nil
	}
	return []byte(path)
}
