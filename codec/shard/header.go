package shard

import "github.com/xetfs/xetfs/codec"

const (
	headerVersion = 2
	inHeader      = "shard header"
)

// magic begins every shard.
const magic = "HFRepoMetaData\x00" +
	"\x55\x69\x67\x45\x6a\x7b\x81\x57\x83\xa5\xbd\xd9\x5c\xcd\xd1\x4a\xa9"

// A header begins a shard.
//
//	offset  size  field
//	     0    32  magic
//	    32     8  version, always 2
//	    40     8  length of the footer: 200, or 0 where there is none
type header struct {
	footer bool // what the header says; see NewReader
}

func (h header) append(b []byte) []byte {
	b = append(b, magic...)
	b = le.AppendUint64(b, headerVersion)
	if h.footer {
		return le.AppendUint64(b, footerSize)
	}
	return le.AppendUint64(b, 0)
}

func decodeHeader(b []byte) (header, error) {
	for i := range len(magic) {
		if b[i] != magic[i] {
			return header{}, codec.Corrupt(inHeader, int64(i), "magic is not that of a shard")
		}
	}
	version, footer := le.Uint64(b[32:]), le.Uint64(b[40:])
	switch {
	case version != headerVersion:
		return header{}, codec.Corrupt(inHeader, 32, "version %d is not known", version)
	case footer != 0 && footer != footerSize:
		return header{}, codec.Corrupt(inHeader, 40, "footer size %d is neither 0 nor %d", footer, footerSize)
	}
	return header{footer: footer != 0}, nil
}
