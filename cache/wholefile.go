package cache

import (
	"io"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/codec"
)

// OpenFileInfo opens the whole content of a file, if it is kept on disk, to be handed to the
// kernel. It must be closed when the kernel is done with it: until then it stays.
func (c *Cache) OpenFile(file codec.Hash) (*disk.File, bool) {
	if c.disk == nil {
		return nil, false
	}
	return c.disk.OpenFile(file)
}

// HasFile says whether the whole content of a file is kept on disk.
func (c *Cache) HasFile(file codec.Hash) bool {
	return c.disk != nil && c.disk.HasFile(file)
}

// FileWasCorrupt says whether a file was found to be damaged that was kept whole: what was
// read of it before may be wrong.
func (c *Cache) FileWasCorrupt(file codec.Hash) bool {
	return c.disk != nil && c.disk.WasCorrupt(file)
}

// CanPutFile says whether a whole file may be laid down now. Who shares the disk cache of
// another process may not, as long as that is there.
func (c *Cache) CanPutFile() bool { return c.disk != nil && c.disk.WriteErr() == nil }

// PutFile lays the whole content of a file down on disk. content must end with an error
// instead of io.EOF if it is not what the file's hash says.
func (c *Cache) PutFile(file codec.Hash, size int64, content io.Reader) error {
	if c.disk == nil {
		return disk.ErrClosed
	}
	return c.disk.PutFile(file, size, content)
}

// HasDisk says whether anything is kept on disk.
func (c *Cache) HasDisk() bool { return c.disk != nil }

// Missing returns the parts of r that are not on disk.
func (c *Cache) Missing(x codec.Hash, r codec.ChunkRange) []codec.ChunkRange {
	if c.disk == nil {
		return []codec.ChunkRange{r}
	}
	return c.disk.Missing(x, r)
}
