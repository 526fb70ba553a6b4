package page

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/codec"
)

// Limits of a value. Links and extended attributes have the limits of Linux. Another limit
// keeps every row far below the size of a page.
const (
	maxMode      = 0o7777
	maxTarget    = 4095
	maxXattrName = 255
	maxXattr     = 64 << 10
	maxRow       = 256 << 10 // key and value
	maxTime      = 1<<62 - 1 // seconds before or after 1970: differences fit in 64 bits

	// blockUnit is what offsets of File Info blocks are multiples of: the length of
	// a record in a shard.
	blockUnit = 48
)

// Check returns an error if e is invalid. A Builder accepts exactly the entries that Check
// accepts, and a page returns them unchanged.
func (e *Entry) Check() error {
	if err := CheckPath(e.Path); err != nil {
		return err
	}
	if err := e.checkValue(); err != nil {
		return fmt.Errorf("entry %.80q: %w", e.Path, err)
	}
	return nil
}

func (e *Entry) checkValue() error {
	switch {
	case e.Type > Symlink:
		return fmt.Errorf("type %d is not known", e.Type)
	case e.Path == "" && e.Type != Dir:
		return errors.New("the root is not a directory")
	case e.Mode > maxMode:
		return fmt.Errorf("mode %#o has more than permission bits", e.Mode)
	case outOfTime(e.ModTime.Unix()):
		return fmt.Errorf("modification time %d is out of range", e.ModTime.Unix())
	case e.Type == Symlink && badTarget([]byte(e.Target)) != "":
		return errors.New(badTarget([]byte(e.Target)))
	case e.Type != Symlink && e.Target != "":
		return fmt.Errorf("a %v with a target", e.Type)
	case e.Type != File && (e.Size != 0 || e.ID != codec.FileID{} || e.Inline != nil || e.SHA256 != nil):
		return fmt.Errorf("a %v with the size or content of a file", e.Type)
	}
	if err := e.checkContent(); err != nil {
		return err
	}
	return e.checkXattrs()
}

// checkContent checks what a file says of its content.
func (e *Entry) checkContent() error {
	switch {
	case e.Size < 0:
		return fmt.Errorf("size %d", e.Size)
	case len(e.Inline) > MaxInline:
		return fmt.Errorf("content of %d bytes, at most %d are allowed", len(e.Inline), MaxInline)
	case len(e.Inline) > 0 && int64(len(e.Inline)) != e.Size:
		return fmt.Errorf("content of %d bytes in a file of %d", len(e.Inline), e.Size)
	case (len(e.Inline) > 0 || e.Size == 0) && e.ID != codec.FileID{}:
		return errors.New("a hash for a file that is empty or has its content with it")
	case len(e.Inline) == 0 && e.Size > 0 && e.ID.File.IsZero():
		return fmt.Errorf("no hash for a file of %d bytes", e.Size)
	case e.ID.Shard.IsZero() && e.ID.Block != 0, e.ID.Block < 0, e.ID.Block%blockUnit != 0:
		return fmt.Errorf("the File Info block is at %d in shard %v", e.ID.Block, e.ID.Shard)
	}
	return nil
}

func (e *Entry) checkXattrs() error {
	size := len(e.Path) + len(e.Target)
	for name, v := range e.Xattrs {
		if reason := badXattr([]byte(name), []byte(v)); reason != "" {
			return errors.New(reason)
		}
		size += len(name) + len(v) + 2*binary.MaxVarintLen32
	}
	if size > maxRow-1024 { // the other fields are far shorter
		return fmt.Errorf("extended attributes of %d bytes", size)
	}
	return nil
}

func badTarget(target []byte) string {
	switch {
	case len(target) == 0:
		return "a link without target"
	case len(target) > maxTarget:
		return fmt.Sprintf("a target of %d bytes, at most %d are allowed", len(target), maxTarget)
	case bytes.IndexByte(target, 0) >= 0:
		return "a target holds a NUL"
	}
	return ""
}

func badXattr(name, v []byte) string {
	switch {
	case len(name) == 0 || len(name) > maxXattrName || bytes.IndexByte(name, 0) >= 0:
		return fmt.Sprintf("an extended attribute is called %.80q", string(name))
	case len(v) > maxXattr:
		return fmt.Sprintf("an extended attribute of %d bytes, at most %d are allowed", len(v), maxXattr)
	}
	return ""
}

func outOfTime(sec int64) bool { return sec < -maxTime || sec > maxTime }
