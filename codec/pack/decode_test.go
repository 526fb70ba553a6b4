package pack

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/pierrec/lz4/v4"
	"github.com/zeebo/blake3"
)

// This file shares no code with the writer. It reads xorbs and shards as the specification
// draws them, so that both cannot have the same defect.

// A name is a hash as others write it: 64 digits, groups of eight bytes back to front.
type name string

const zeroName = name("0000000000000000000000000000000000000000000000000000000000000000")

func nameOf(raw []byte) name {
	var text []byte
	for word := range slices.Chunk(raw[:32], 8) {
		text = fmt.Appendf(text, "%016x", binary.LittleEndian.Uint64(word))
	}
	return name(text)
}

func (n name) raw() []byte {
	b, err := hex.DecodeString(string(n))
	if err != nil || len(b) != 32 {
		panic("not a name: " + n)
	}
	for word := range slices.Chunk(b, 8) {
		slices.Reverse(word)
	}
	return b
}

// The keys of the specification, in decimal there.
var (
	dataKey = []byte{102, 151, 245, 119, 91, 149, 80, 222, 49, 53, 203, 172, 165, 151, 24, 28, 157, 228, 33, 16, 155, 235, 43, 88, 180, 208, 176, 75, 147, 173, 242, 41}
	nodeKey = []byte{1, 126, 197, 199, 165, 71, 41, 150, 253, 148, 102, 102, 180, 138, 2, 230, 93, 221, 83, 111, 55, 199, 109, 210, 248, 99, 82, 230, 74, 83, 113, 63}
	termKey = []byte{127, 24, 87, 214, 206, 86, 237, 102, 18, 127, 249, 19, 231, 165, 195, 243, 164, 205, 38, 213, 181, 219, 73, 230, 65, 36, 152, 127, 40, 251, 148, 195}
	fileKey = make([]byte, 32)
)

func keyed(key, data []byte) name {
	h, err := blake3.NewKeyed(key)
	if err != nil {
		panic(err)
	}
	h.Write(data)
	return nameOf(h.Sum(nil))
}

// A sized is a chunk or a node above it.
type sized struct {
	name name
	size int
}

// rootOf puts the nodes of a tree together, level by level.
func rootOf(nodes []sized) name {
	if len(nodes) == 0 {
		return zeroName
	}
	for len(nodes) > 1 {
		var above []sized
		for len(nodes) > 0 {
			n := min(len(nodes), 9)
			for k := 2; k < n; k++ {
				if binary.LittleEndian.Uint64(nodes[k].name.raw()[24:])%4 == 0 {
					n = k + 1
				}
			}
			var text []byte
			node := sized{}
			for _, child := range nodes[:n] {
				text = fmt.Appendf(text, "%s : %d\n", child.name, child.size)
				node.size += child.size
			}
			node.name = keyed(nodeKey, text)
			above, nodes = append(above, node), nodes[n:]
		}
		nodes = above
	}
	return nodes[0].name
}

func fileOf(chunks []sized) name {
	if len(chunks) == 0 {
		return zeroName
	}
	return keyed(fileKey, rootOf(chunks).raw())
}

func termOf(chunks []sized) name {
	var all []byte
	for _, c := range chunks {
		all = append(all, c.name.raw()...)
	}
	return keyed(termKey, all)
}

// A decodedXorb is a xorb, unpacked.
type decodedXorb struct {
	name    name
	chunks  [][]byte
	schemes []byte
	sized   []sized
	packed  int // bytes of headers and packed chunks
}

// decodeXorb walks over the headers up to the end, or to a footer.
func decodeXorb(b []byte) (*decodedXorb, error) {
	x := new(decodedXorb)
	at := 0
	for at < len(b) && b[at] != 'X' {
		if len(b)-at < 8 || b[at] != 0 {
			return nil, fmt.Errorf("no chunk at %d", at)
		}
		packed := int(b[at+1]) | int(b[at+2])<<8 | int(b[at+3])<<16
		size := int(b[at+5]) | int(b[at+6])<<8 | int(b[at+7])<<16
		if packed == 0 || packed > size || size > 128<<10 || at+8+packed > len(b) {
			return nil, fmt.Errorf("chunk at %d: %d bytes packed, %d unpacked", at, packed, size)
		}
		data, err := decodeChunk(b[at+8:at+8+packed], b[at+4], size)
		if err != nil {
			return nil, fmt.Errorf("chunk at %d: %w", at, err)
		}
		x.chunks = append(x.chunks, data)
		x.schemes = append(x.schemes, b[at+4])
		x.sized = append(x.sized, sized{keyed(dataKey, data), size})
		at += 8 + packed
	}
	x.name, x.packed = rootOf(x.sized), at
	return x, nil
}

func decodeChunk(packed []byte, scheme byte, size int) ([]byte, error) {
	data := packed
	switch scheme {
	case 1, 2:
		var err error
		if data, err = io.ReadAll(lz4.NewReader(bytes.NewReader(packed))); err != nil {
			return nil, err
		}
	}
	if len(data) != size {
		return nil, fmt.Errorf("%d bytes, want %d", len(data), size)
	}
	if scheme == 2 {
		return ungroup(data), nil
	}
	return bytes.Clone(data), nil
}

// ungroup is the plain formula: byte i is in group i mod 4, which begins where the
// groups before it end.
func ungroup(b []byte) []byte {
	q, r := len(b)/4, len(b)%4
	out := make([]byte, len(b))
	for i := range out {
		g := i % 4
		out[i] = b[g*q+min(g, r)+i/4]
	}
	return out
}

type decodedTerm struct {
	xorb       name
	size       int
	start, end int
}

type decodedFile struct {
	name   name
	offset int // of its block
	flags  uint32
	terms  []decodedTerm
	verify []name
	sha256 []byte // as usual
}

type decodedCAS struct {
	name             name
	chunks           []sized
	unpacked, packed int
}

type decodedShard struct {
	files []decodedFile
	xorbs []decodedCAS
}

var u32, u64 = binary.LittleEndian.Uint32, binary.LittleEndian.Uint64

// decodeShard reads a shard by the offsets of its structures, and compares the tables
// and the footer with what they tell about.
func decodeShard(b []byte) (*decodedShard, error) {
	if len(b)%4 != 0 || len(b) < 344 || !bytes.HasPrefix(b, []byte("HFRepoMetaData\x00")) || u64(b[32:]) != 2 || u64(b[40:]) != 200 {
		return nil, errors.New("no header")
	}
	s := new(decodedShard)
	at := 48
	for ; !bytes.Equal(b[at:at+32], bytes.Repeat([]byte{0xff}, 32)); at += 48 {
		f := decodedFile{name: nameOf(b[at:]), offset: at, flags: u32(b[at+32:])}
		n := int(u32(b[at+36:]))
		for range n {
			at += 48
			f.terms = append(f.terms, decodedTerm{nameOf(b[at:]), int(u32(b[at+36:])), int(u32(b[at+40:])), int(u32(b[at+44:]))})
		}
		for range n * int(f.flags>>31) {
			at += 48
			f.verify = append(f.verify, nameOf(b[at:]))
		}
		if f.flags>>30&1 == 1 {
			at += 48
			f.sha256, _ = hex.DecodeString(string(nameOf(b[at:]))) // groups of eight are reversed there
		}
		s.files = append(s.files, f)
	}
	xorbs := at + 48
	for at = xorbs; !bytes.Equal(b[at:at+32], bytes.Repeat([]byte{0xff}, 32)); at += 48 {
		x := decodedCAS{name: nameOf(b[at:]), unpacked: int(u32(b[at+40:])), packed: int(u32(b[at+44:]))}
		start := 0
		for range int(u32(b[at+36:])) {
			at += 48
			if int(u32(b[at+32:])) != start || u64(b[at+40:]) != 0 {
				return nil, fmt.Errorf("chunk at %d begins at %d, flags %x", at, u32(b[at+32:]), u64(b[at+40:]))
			}
			x.chunks = append(x.chunks, sized{nameOf(b[at:]), int(u32(b[at+36:]))})
			start += int(u32(b[at+36:]))
		}
		if start != x.unpacked {
			return nil, fmt.Errorf("xorb %s: %d bytes, the chunks have %d", x.name, x.unpacked, start)
		}
		s.xorbs = append(s.xorbs, x)
	}
	return s, s.checkTail(b, xorbs, at+48)
}

// checkTail compares the lookup tables and the footer with the blocks.
func (s *decodedShard) checkTail(b []byte, xorbs, tables int) error {
	var want []byte
	at := 0
	for _, f := range s.files {
		want = binary.LittleEndian.AppendUint64(want, u64(f.name.raw()))
		want = binary.LittleEndian.AppendUint32(want, uint32((f.offset-48)/48))
	}
	fileTable := len(want)
	var chunks [][]byte
	for _, x := range s.xorbs {
		want = binary.LittleEndian.AppendUint64(want, u64(x.name.raw()))
		want = binary.LittleEndian.AppendUint32(want, uint32(at))
		for i, c := range x.chunks {
			e := binary.BigEndian.AppendUint64(nil, u64(c.name.raw())) // so that they sort by it
			e = binary.BigEndian.AppendUint32(e, uint32(at))
			chunks = append(chunks, binary.BigEndian.AppendUint32(e, uint32(i)))
		}
		at += 1 + len(x.chunks)
	}
	xorbTable := len(want)
	slices.SortFunc(chunks, bytes.Compare)
	for _, e := range chunks {
		slices.Reverse(e[:8])
		slices.Reverse(e[8:12])
		slices.Reverse(e[12:])
		want = append(want, e...)
	}
	if !bytes.Equal(b[tables:len(b)-200], want) {
		return errors.New("the lookup tables are wrong")
	}
	foot := b[len(b)-200:]
	for i, v := range []int{1, 48, xorbs, tables, len(s.files), tables + fileTable, len(s.xorbs), tables + xorbTable, len(chunks)} {
		if u64(foot[8*i:]) != uint64(v) {
			return fmt.Errorf("footer: field %d is %d, want %d", i, u64(foot[8*i:]), v)
		}
	}
	if u64(foot[192:]) != uint64(len(b)-200) {
		return fmt.Errorf("footer: it begins at %d, it says %d", len(b)-200, u64(foot[192:]))
	}
	return nil
}
