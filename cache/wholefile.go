package cache

import (
	"io"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/codec"
)

// OpenFile opens the whole content of a file for the kernel, if it is on disk. The file must be
// closed after use, and cannot be evicted before.
func (c *Cache) OpenFile(file codec.Hash) (*disk.File, bool) {
	if c.disk == nil {
		return nil, false
	}
	return c.disk.OpenFile(file)
}

// HasFile reports whether the whole content of a file is on disk.
func (c *Cache) HasFile(file codec.Hash) bool {
	return c.disk != nil && c.disk.HasFile(file)
}

// FileWasCorrupt reports whether a whole file was found corrupt. Earlier reads of it may have
// been wrong.
func (c *Cache) FileWasCorrupt(file codec.Hash) bool {
	return c.disk != nil && c.disk.WasCorrupt(file)
}

// CanPutFile reports whether a whole file may be stored now. A process that shares the disk
// cache of another running process cannot store files.
func (c *Cache) CanPutFile() bool { return c.disk != nil && c.disk.WriteErr() == nil }

// PutFile stores the whole content of a file on disk. content must end with an error instead of
// io.EOF if it does not match the hash of the file.
func (c *Cache) PutFile(file codec.Hash, size int64, content io.Reader) error {
	if c.disk == nil {
		return disk.ErrClosed
	}
	return c.disk.PutFile(file, size, content)
}

// HasDisk reports whether the Cache has a disk cache.
func (c *Cache) HasDisk() bool { return c.disk != nil }

// Missing returns the parts of r that are not on disk.
func (c *Cache) Missing(x codec.Hash, r codec.ChunkRange) []codec.ChunkRange {
	if c.disk == nil {
		return []codec.ChunkRange{r}
	}
	return c.disk.Missing(x, r)
}
