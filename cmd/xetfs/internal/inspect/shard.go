package inspect

import (
	"encoding/hex"
	"io"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// The fields of a shard as inspect --json shows it are, beside its files and xorbs:
//
//	format          "shard"
//	size, version   numbers
//	footer          whether there is one; without, the next three are null
//	created         Unix seconds, as stored
//	expires         Unix seconds, as stored: 2^64-1 and 0 mean never
//	chunk_hash_key  text form; null if the chunk hashes are not keyed
//
// The names are a promise. An absent value is null.

// A fileDoc is a File Info block.
type fileDoc struct {
	Hash   codec.Hash `json:"hash"`
	Size   int64      `json:"size"`
	SHA256 *string    `json:"sha256"`
	Terms  []termDoc  `json:"terms"`
}

// A termDoc is one term of a file.
type termDoc struct {
	Xorb         codec.Hash  `json:"xorb"`
	Start        uint32      `json:"start"`
	End          uint32      `json:"end"`
	Unpacked     uint32      `json:"unpacked"`
	Verification *codec.Hash `json:"verification"`
}

// A xorbInfoDoc is a CAS Info block.
type xorbInfoDoc struct {
	Hash     codec.Hash         `json:"hash"`
	Packed   uint32             `json:"packed"`
	Unpacked uint32             `json:"unpacked"`
	Chunks   []xorbInfoChunkDoc `json:"chunks"`
}

// A xorbInfoChunkDoc is one chunk of a CAS Info block.
type xorbInfoChunkDoc struct {
	Hash  codec.Hash `json:"hash"` // keyed if the shard is
	Start uint32     `json:"start"`
	Size  uint32     `json:"size"`
	Dedup bool       `json:"dedup"`
}

// checkShard returns the first damage of a shard that is visible without its xorbs.
func checkShard(r io.ReaderAt, size int64) error {
	s, err := shard.NewReader(r, size)
	if err != nil {
		return err
	}
	for _, err := range s.Heads() {
		if err != nil {
			return err
		}
	}
	for _, err := range s.Xorbs() {
		if err != nil {
			return err
		}
	}
	return s.CheckTables()
}

// shardJSON writes a shard that is not damaged as one object.
func shardJSON(w io.Writer, r io.ReaderAt, size int64) error {
	s, err := shard.NewReader(r, size)
	if err != nil {
		return err
	}
	doc := ui.NewDocument(w)
	shardFields(doc, s.Meta())
	doc.Begin("files")
	for f, err := range s.Files() {
		if err != nil {
			return err
		}
		doc.Element(newFileDoc(f))
	}
	doc.End()
	doc.Begin("xorbs")
	for x, err := range s.Xorbs() {
		if err != nil {
			return err
		}
		doc.Element(newXorbInfoDoc(x))
	}
	doc.End()
	return doc.Close()
}

func shardFields(doc *ui.Document, m shard.Meta) {
	var (
		created, expires *uint64
		key              *codec.Hash
	)
	if m.Footer {
		created, expires = &m.Created, &m.Expires
	}
	if m.Keyed {
		key = (*codec.Hash)(&m.Key)
	}
	doc.Field("format", "shard")
	doc.Field("size", m.Size)
	doc.Field("version", m.Version)
	doc.Field("footer", m.Footer)
	doc.Field("created", created)
	doc.Field("expires", expires)
	doc.Field("chunk_hash_key", key)
}

func newFileDoc(f *shard.FileInfo) fileDoc {
	doc := fileDoc{Hash: f.File, Size: f.Size(), SHA256: PlainHex(f.SHA256), Terms: make([]termDoc, len(f.Terms))}
	for i, t := range f.Terms {
		doc.Terms[i] = termDoc{Xorb: t.Xorb, Start: t.Chunks.Start, End: t.Chunks.End, Unpacked: t.Size}
		if i < len(f.Verify) {
			doc.Terms[i].Verification = &f.Verify[i]
		}
	}
	return doc
}

func newXorbInfoDoc(x *shard.XorbInfo) xorbInfoDoc {
	doc := xorbInfoDoc{Hash: x.Xorb, Packed: x.Packed, Unpacked: x.Unpacked, Chunks: make([]xorbInfoChunkDoc, len(x.Chunks))}
	for i, c := range x.Chunks {
		doc.Chunks[i] = xorbInfoChunkDoc(c)
	}
	return doc
}

// PlainHex returns the usual text of a SHA-256, or nil if it is absent.
func PlainHex(sum [32]byte) *string {
	if sum == ([32]byte{}) {
		return nil
	}
	text := hex.EncodeToString(sum[:])
	return &text
}
