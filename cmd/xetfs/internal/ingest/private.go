package ingest

import (
	"os"
	"path/filepath"
)

// Bits of a mode that give other users access.
const (
	othersRead   = 0o004
	othersSearch = 0o001
)

// isPrivate reports whether other users cannot reach the entries of a folder with some mode.
func isPrivate(mode uint32) bool { return mode&othersSearch == 0 }

// OthersReach reports whether other users may search a folder and all folders above it.
func OthersReach(folder string) bool {
	path, err := filepath.EvalSymlinks(folder)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	for err == nil {
		var info os.FileInfo
		if info, err = os.Stat(path); err != nil || isPrivate(uint32(info.Mode().Perm())) {
			return false
		}
		above := filepath.Dir(path)
		if above == path {
			return true
		}
		path = above
	}
	return false
}

// aboveIsPrivate reports whether other users cannot reach a folder because of a folder above.
func aboveIsPrivate(folder string) bool {
	path, err := filepath.EvalSymlinks(folder)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	return err != nil || path != "/" && !OthersReach(filepath.Dir(path))
}
