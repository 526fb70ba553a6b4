package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// Bits of a mode that give other users access.
const (
	othersRead   = 0o004
	othersSearch = 0o001
)

// A privateFiles counts files of a folder that other users may not read.
type privateFiles struct {
	count int64
	first string // path of one of them
}

// add counts a file with some mode in an open folder if other users may not read it.
func (p *privateFiles) add(path string, in *openFolder, mode uint32) {
	if mode&othersRead != 0 && !in.private {
		return
	}
	if p.count++; p.count == 1 {
		p.first = path
	}
}

// text says that other users can read the files in a store; "" if they cannot.
func (p *privateFiles) text(store string) string {
	if p.count == 0 || !othersReach(store) {
		return ""
	}
	return fmt.Sprintf("other users may not read %s (%s), but they can read what is stored in %s; to prevent that: chmod o= %s",
		many(p.count, "file"), p.first, store, shellWord(store))
}

// isPrivate reports whether other users cannot reach what is in a folder with some mode.
func isPrivate(mode uint32) bool { return mode&othersSearch == 0 }

// othersReach reports whether other users may search a folder and all folders above it.
func othersReach(folder string) bool {
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

// aboveIsPrivate reports whether other users cannot reach a folder because of those above it.
func aboveIsPrivate(folder string) bool {
	path, err := filepath.EvalSymlinks(folder)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	return err != nil || path != "/" && !othersReach(filepath.Dir(path))
}

// private counts a file if other users may not read it.
func (a *asides) private(path string, in *openFolder, mode uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.privates.add(path, in, mode)
}

// notePrivate says in one line that other users can read files in a store that they may not
// read elsewhere.
func (a *asides) notePrivate(store string) {
	a.mu.Lock()
	text := a.privates.text(store)
	a.mu.Unlock()
	if text != "" {
		a.note(text)
	}
}
