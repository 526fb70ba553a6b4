package page

import "encoding/binary"

// A Link is what a higher page says of a page below it. Its key is the last key of that
// page; its value is
//
//	32 bytes  hash of the page
//	32 bytes  identity of the page
//	 uvarint  length of the page
//	 uvarint  entries below it
//	 uvarint  sum of the sizes of the files below it
//
// The identity form of a page omits the hash and the length.
type Link struct {
	Last     string // last key in the page
	Page     Hash
	Identity Identity
	Size     int   // of the page in bytes
	Entries  int64 // below it
	Bytes    int64 // sum of file sizes below it
}

// append adds the value of l to b.
func (l *Link) append(b []byte) []byte {
	b = append(b, l.Page[:]...)
	b = append(b, l.Identity[:]...)
	b = binary.AppendUvarint(b, uint64(l.Size))
	b = binary.AppendUvarint(b, uint64(l.Entries))
	return binary.AppendUvarint(b, uint64(l.Bytes))
}

// appendIdentity adds the value of l in the identity form to b.
func (l *Link) appendIdentity(b []byte) []byte {
	b = append(b, l.Identity[:]...)
	b = binary.AppendUvarint(b, uint64(l.Entries))
	return binary.AppendUvarint(b, uint64(l.Bytes))
}

// identityIn returns the identity in the value of a link that Decode found good.
func identityIn(value []byte) Identity { return Identity(value[hashSize : 2*hashSize]) }

// decodeLink decodes the value of a link at offset off of the page. It leaves Last empty.
func decodeLink(b []byte, off int64) (Link, error) {
	f := fields{b: b, start: int(off)}
	var l Link
	copy(l.Page[:], f.bytes("hash of a page", uint64(hashSize)))
	copy(l.Identity[:], f.bytes("identity of a page", uint64(hashSize)))
	at := f.at
	l.Size = int(f.limited(MaxSize, "length of a page"))
	l.Entries = f.int63("count of entries")
	l.Bytes = f.int63("sum of sizes")
	if l.Size <= headerSize || l.Entries == 0 {
		f.fail(at, "a link to a page without rows")
	}
	return l, f.done()
}
