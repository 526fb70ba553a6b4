package main

import (
	"path/filepath"
)

// within says whether path is dir or lies below it, both absolute and clean.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
