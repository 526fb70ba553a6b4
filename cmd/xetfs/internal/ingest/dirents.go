package ingest

import (
	"bytes"
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// A direntList has the names of a folder. It needs 8 bytes per name, and the name.
type direntList struct {
	text []byte   // type, name, NUL; and so on
	at   []uint32 // offset of each name in text
}

// maxDirentText keeps offsets within 32 bits: some hundred million names.
const maxDirentText = 1<<32 - 1<<16

// readDirents reads the names in an open folder, sorted by their bytes.
func readDirents(sc *syscalls, fd int) (*direntList, error) {
	l := new(direntList)
	buf := make([]byte, 64<<10)
	for {
		n, err := sc.getdents(fd, buf)
		switch {
		case err != nil:
			return nil, err
		case n <= 0:
			l.sort()
			return l, nil
		case len(l.text) > maxDirentText:
			return nil, unix.EOVERFLOW
		}
		l.add(buf[:n])
	}
}

// add adds the result of getdents64, a sequence of
//
//	offset  size  field
//	     0     8  inode
//	     8     8  position
//	    16     2  n, length of the record
//	    18     1  type
//	    19     …  name, NUL, padding up to n
func (l *direntList) add(b []byte) {
	const head = 19
	for len(b) > head {
		n := int(binary.NativeEndian.Uint16(b[16:]))
		if n <= head || n > len(b) {
			return
		}
		name := b[head:n]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		if s := string(name); s != "." && s != ".." && s != "" {
			l.at = append(l.at, uint32(len(l.text)))
			l.text = append(l.text, b[18])
			l.text = append(l.text, name...)
			l.text = append(l.text, 0)
		}
		b = b[n:]
	}
}

// sort sorts the names and removes duplicates, which a changing folder may have.
func (l *direntList) sort() {
	slices.SortFunc(l.at, func(a, b uint32) int { return bytes.Compare(l.name(a), l.name(b)) })
	l.at = slices.CompactFunc(l.at, func(a, b uint32) bool { return bytes.Equal(l.name(a), l.name(b)) })
}

// name returns the name at an offset of text.
func (l *direntList) name(at uint32) []byte {
	b := l.text[at+1:]
	return b[:bytes.IndexByte(b, 0)]
}

// all yields the names in order with their types: unix.DT_DIR, unix.DT_UNKNOWN and so on.
func (l *direntList) all(yield func(name []byte, kind byte) bool) {
	for _, at := range l.at {
		if !yield(l.name(at), l.text[at]) {
			return
		}
	}
}
