package main

import (
	"fmt"
	"path/filepath"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/statcache"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// openStatCache opens the stat cache of FOLDER. Without one all files are read.
func (p *publishing) openStatCache(catalog string) (old *statcache.File, update *statcache.Update) {
	folder, err := filepath.EvalSymlinks(p.folder)
	if err == nil {
		folder, err = filepath.Abs(folder)
	}
	if err != nil || p.folder == "" {
		return nil, nil
	}
	path, err := statCachePath(catalog, p.symbol, folder)
	if err == nil {
		old = statcache.Open(path)
	}
	if err == nil && !p.dryRun {
		update, err = statcache.Create(path)
	}
	if err != nil {
		p.report.Note(fmt.Sprintf("all files will be read next time: %v", ui.Reason(err)))
	}
	return old, update
}

// statCacheDir is the folder of all stat caches in cacheDir.
const statCacheDir = "publish"

// statCachePath returns the place of the stat cache of a folder.
func statCachePath(catalog, symbol, folder string) (*statcache.Path, error) {
	dir, err := ownCacheDir()
	if err != nil {
		return nil, err
	}
	return statcache.NewPath(filepath.Join(dir, statCacheDir), catalog, symbol, folder)
}
