package statcache

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A Path is the place of the stat cache file of one catalog, symbol and folder. Its name
// follows from all three.
type Path struct {
	dir  string // of all stat cache files
	file string
	head head
}

// A head is the first record of a file. Its JSON names are part of the format.
type head struct {
	Format  int    `json:"format"`
	Catalog string `json:"catalog"` // id
	Symbol  string `json:"symbol"`
	Folder  string `json:"folder"` // absolute
}

// NewPath returns the place below dir, and creates dir. Only the user of the process may have
// access to dir. The folder is an absolute path.
func NewPath(dir, catalog, symbol, folder string) (*Path, error) {
	p := &Path{dir: dir, head: head{format, catalog, symbol, strings.ToValidUTF8(folder, "\ufffd")}}
	sum := sha256.Sum256([]byte(strings.Join([]string{catalog, symbol, folder}, "\x00")))
	p.file = filepath.Join(dir, hex.EncodeToString(sum[:16]))
	return p, os.MkdirAll(dir, 0o700)
}

const tempPrefix = "new-"

// Age limits of files that no publish has replaced, and of those that were never completed.
const (
	maxAge     = 180 * 24 * time.Hour
	maxTempAge = 7 * 24 * time.Hour
)

// removeOld deletes the old files of dir. It ignores errors.
func (p *Path) removeOld() {
	all, err := os.ReadDir(p.dir)
	if err != nil {
		return
	}
	for _, d := range all {
		limit := maxAge
		if strings.HasPrefix(d.Name(), tempPrefix) {
			limit = maxTempAge
		} else if _, err := hex.DecodeString(d.Name()); err != nil || len(d.Name()) != 32 {
			continue // not a stat cache file
		}
		if info, err := d.Info(); err == nil && time.Since(info.ModTime()) > limit {
			_ = os.Remove(filepath.Join(p.dir, d.Name()))
		}
	}
}
