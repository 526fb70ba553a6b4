package main

import (
	"fmt"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"os"
	"path/filepath"
	"sync"
)

// Bits of a mode that give other users access.
const (
	othersRead   = 0o004
	othersSearch = 0o001
)

// A privateFiles counts files of a folder that other users may not read. It is safe for
// concurrent use.
type privateFiles struct {
	mu    sync.Mutex
	count int64  // guarded by mu
	first string // path of one of them; guarded by mu
}

// add counts a file with some mode in an open folder if other users may not read it.
func (p *privateFiles) add(path string, in *openFolder, mode uint32) {
	if mode&othersRead != 0 && !in.private {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count++; p.count == 1 {
		p.first = path
	}
}

// note prints one line if other users can read the files in a store.
func (p *privateFiles) note(n *ui.Notices, store string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count == 0 || !othersReach(store) {
		return
	}
	n.Note(fmt.Sprintf("other users may not read %s (%s), but they can read what is stored in %s; to prevent that: chmod o= %s",
		ui.Plural(p.count, "file"), p.first, store, ui.ShellWord(store)))
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
