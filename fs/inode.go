package fs

import (
	"encoding/binary"

	"github.com/zeebo/blake3"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// An identity says which file, directory or link a name is: two hashes of what makes
// it that. ino is the number the kernel and the user see; gen, of which the kernel
// looks at 32 bits, tells two apart that happen to have one number.
type identity struct{ ino, gen uint64 }

// rootID is the root's. FUSE says so.
var rootID = identity{ino: 1}

// identify returns the identity of an entry. It depends on the content: were a path to
// keep its number while its content changes, the kernel, whose page cache belongs to
// the number, would mix old and new pages in an open file.
//
//	file       'f' path NUL hash size, or inline content
//	file       'b' FileID, where oneInode: all names of it share a number
//	link       'l' path NUL target
//	directory  'd' path
func identify(e *page.Entry, oneInode bool) identity {
	if e.Path == "" {
		return rootID
	}
	var room [256]byte
	b := room[:0]
	switch {
	case e.Type == page.Dir:
		b = append(append(b, 'd'), e.Path...)
	case e.Type == page.Symlink:
		b = append(append(append(append(b, 'l'), e.Path...), 0), e.Target...)
	case oneInode && !e.ID.Shard.IsZero():
		b = appendID(append(b, 'b'), e.ID)
	case e.Inline != nil:
		b = append(append(append(append(b, 'f'), e.Path...), 0), e.Inline...)
	default:
		b = append(append(append(append(b, 'f'), e.Path...), 0), e.ID.File[:]...)
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Size))
	}
	sum := blake3.Sum256(b)
	return identity{
		ino: usable(binary.LittleEndian.Uint64(sum[:])),
		gen: binary.LittleEndian.Uint64(sum[8:]),
	}
}

func appendID(b []byte, id codec.FileID) []byte {
	b = append(append(b, id.File[:]...), id.Shard[:]...)
	return binary.LittleEndian.AppendUint64(b, uint64(id.Block))
}

// usable returns another number for those that mean something: 0 is no inode, 1 the
// root, and the highest belongs to go-fuse.
func usable(ino uint64) uint64 {
	switch ino {
	case 0, 1:
		return ino + 2
	case ^uint64(0):
		return ino - 1
	}
	return ino
}
