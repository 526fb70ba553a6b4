package fs

import (
	"encoding/binary"

	"github.com/zeebo/blake3"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// An identity is the identity of a file, directory or link: two hashes of its content. ino is
// the inode number. gen distinguishes two identities with one number; the kernel compares 32
// bits of it.
type identity struct{ ino, gen uint64 }

// rootID is the identity of the root of the mount. FUSE requires number 1.
var rootID = identity{ino: 1}

// These are the labels of volumes. No label is a prefix of another label, or of the bytes that
// identify hashes after a label.
//
//	''                        what has no symbol, and directories that lead to symbols
//	's' symbol NUL            the tree of a symbol, in any version
//	'v' symbol NUL            its hidden directory of versions
//	'n' symbol NUL number     one version of it by number, 8 bytes
//	'h' symbol NUL identity   one version of it by the identity of its tree, 32 bytes
func symbolLabel(symbol string) string   { return label('s', symbol) }
func versionsLabel(symbol string) string { return label('v', symbol) }

func numberLabel(symbol string, number uint64) string {
	return label('n', symbol) + string(binary.LittleEndian.AppendUint64(nil, number))
}

func treeLabel(symbol string, id page.Identity) string { return label('h', symbol) + string(id[:]) }

func label(kind byte, symbol string) string {
	if symbol == "" && kind == 's' {
		return ""
	}
	return string(kind) + symbol + "\x00"
}

// identify returns the identity of an entry of v. It depends on the content, because the page
// cache belongs to the number. An open file would otherwise mix old and new pages. It does not
// depend on the version, so unchanged files stay cached.
//
// The hashed bytes are the label of the volume, followed by
//
//	file       'f' path NUL hash size
//	file       'i' path NUL inline content
//	file       'b' FileID, where oneInode: all names of it share a number but those that
//	           claim a SHA-256, which may turn out to be false
//	link       'l' path NUL target
//	directory  'd' path
func (v *volume) identify(e *page.Entry) identity {
	if e.Path == "" {
		return v.rootID()
	}
	var room [512]byte
	b := append(room[:0], v.label...)
	switch {
	case e.Type == page.Dir:
		b = append(append(b, 'd'), e.Path...)
	case e.Type == page.Symlink:
		b = append(append(append(append(b, 'l'), e.Path...), 0), e.Target...)
	case v.oneInode && !e.ID.Shard.IsZero() && v.pathSHA256(e.Path) == nil:
		b = appendID(append(b, 'b'), e.ID)
	case e.Inline != nil:
		b = append(append(append(append(b, 'i'), e.Path...), 0), e.Inline...)
	default:
		b = append(append(append(append(b, 'f'), e.Path...), 0), e.ID.File[:]...)
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Size))
	}
	return hashed(b)
}

// rootID is the identity of the root of v.
func (v *volume) rootID() identity {
	if v.parent == nil {
		return rootID
	}
	return rootOf(v.label)
}

// rootOf is the identity of the root of a volume with a label, in another volume.
func rootOf(label string) identity {
	var room [256]byte
	return hashed(append(append(room[:0], label...), 'd'))
}

// dirID is the identity of a directory of v.
func (v *volume) dirID(path string) identity {
	return v.identify(&page.Entry{Path: path, Type: page.Dir})
}

func hashed(b []byte) identity {
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

// usable replaces reserved numbers: 0 is no inode, 1 the root, and go-fuse uses the highest.
func usable(ino uint64) uint64 {
	switch ino {
	case 0, 1:
		return ino + 2
	case ^uint64(0):
		return ino - 1
	}
	return ino
}
