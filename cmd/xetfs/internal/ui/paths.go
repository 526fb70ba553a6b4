package ui

import "path/filepath"

// Within reports whether path is dir or below it. Both must be absolute and clean.
func Within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
