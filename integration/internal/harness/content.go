package harness

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
)

// A Content is a stream of bytes that is the same on every machine, made while it is
// read: n bytes of it.
type Content struct {
	Left int64
	Make func(b []byte) []byte // appends some more to b
	buf  []byte
	rest []byte // of buf
}

// Read implements io.Reader.
func (c *Content) Read(p []byte) (int, error) {
	if c.Left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), c.Left)]
	n := 0
	for n < len(p) {
		if len(c.rest) == 0 {
			c.buf = c.Make(c.buf[:0])
			c.rest = c.buf
		}
		m := copy(p[n:], c.rest)
		c.rest = c.rest[m:]
		n += m
	}
	c.Left -= int64(n)
	return n, nil
}

// TextContent is lines of JSON such as logs and data sets have: names repeat, numbers
// and words differ. LZ4 makes about a third of it.
func TextContent(seed uint64, n int64) io.Reader {
	rng := rand.New(rand.NewPCG(seed, 'j'))
	row := int64(0)
	return &Content{Left: n, Make: func(b []byte) []byte {
		for len(b) < 64<<10 {
			b = appendRow(b, rng, row)
			row++
		}
		return b
	}}
}

var words = []string{
	"alpha", "amber", "anchor", "basin", "birch", "cedar", "cobalt", "copper", "delta", "ember", "falcon",
	"garnet", "harbor", "hazel", "indigo", "ivory", "juniper", "kestrel", "lagoon", "lantern", "maple",
	"meadow", "nickel", "nimbus", "oasis", "orchid", "pebble", "quartz", "raven", "saffron", "thistle", "willow",
}

func appendRow(b []byte, rng *rand.Rand, row int64) []byte {
	bits := rng.Uint64()
	b = append(b, `{"id":`...)
	b = strconv.AppendInt(b, row, 10)
	b = append(b, `,"user":"`...)
	b = append(b, words[bits&31]...)
	b = append(b, '-')
	b = strconv.AppendUint(b, bits>>10&0xffff, 10)
	b = append(b, `","score":0.`...)
	b = strconv.AppendUint(b, bits>>26&0xfffff, 10)
	b = append(b, `,"tags":["`...)
	b = append(b, words[bits>>46&31]...)
	b = append(b, `","`...)
	b = append(b, words[bits>>51&31]...)
	return append(b, "\"],\"state\":\"done\"}\n"...)
}

// WeightsContent returns float32 numbers like those of the layers of a model. They are close to
// zero, with similar exponents and random mantissas.
func WeightsContent(seed uint64, n int64) io.Reader {
	rng := rand.New(rand.NewPCG(seed, 'w'))
	return &Content{Left: n, Make: func(b []byte) []byte {
		for len(b) < 64<<10 {
			bits := rng.Uint64()
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(Weight(uint32(bits))))
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(Weight(uint32(bits>>32))))
		}
		return b
	}}
}

// Weight approximates a normal distribution by the sum of three uniform ones.
func Weight(bits uint32) float32 {
	sum := int32(bits&0x7ff) + int32(bits>>11&0x7ff) + int32(bits>>22&0x3ff)*2 - 3*1024
	return (float32(sum) + float32(bits>>3&0xff)/256) * 2e-5
}

// NoiseContent does not shrink.
func NoiseContent(seed uint64, n int64) io.Reader {
	rng := rand.New(rand.NewPCG(seed, 'n'))
	return &Content{Left: n, Make: func(b []byte) []byte {
		for len(b) < 64<<10 {
			b = binary.LittleEndian.AppendUint64(b, rng.Uint64())
		}
		return b
	}}
}

// Noise returns n bytes of it.
func Noise(seed uint64, n int) []byte {
	b, err := io.ReadAll(NoiseContent(seed, int64(n)))
	if err != nil {
		panic(err) // it only counts
	}
	return b
}

// A BlockSums is a reference for files too big to be kept: the CRC-32C of every block.
type BlockSums struct {
	size int64
	sums []uint32
	part uint32 // of the last block, so far
}

// SumBlock is the number of bytes of one sum.
const SumBlock = 1 << 20

// Castagnoli is the table of all sums.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Write implements io.Writer.
func (s *BlockSums) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(int64(len(rest)), SumBlock-s.size%SumBlock)
		s.part = crc32.Update(s.part, Castagnoli, rest[:n])
		s.size += n
		if s.size%SumBlock == 0 {
			s.sums, s.part = append(s.sums, s.part), 0
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// Check compares the bytes of block i.
func (s *BlockSums) Check(i int64, b []byte) error {
	want := s.part
	if i < int64(len(s.sums)) {
		want = s.sums[i]
	}
	if want != crc32.Checksum(b, Castagnoli) {
		return fmt.Errorf("block %d of %d bytes: its sum is wrong (I1)", i, len(b))
	}
	return nil
}

// Blocks is how many there are.
func (s *BlockSums) Blocks() int64 { return (s.size + SumBlock - 1) / SumBlock }
