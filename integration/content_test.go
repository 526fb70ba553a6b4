package integration

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
)

// A content is a stream of bytes that is the same on every machine, made while it is
// read: n bytes of it.
type content struct {
	left int64
	make func(b []byte) []byte // appends some more to b
	buf  []byte
	rest []byte // of buf
}

// Read implements io.Reader.
func (c *content) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), c.left)]
	n := 0
	for n < len(p) {
		if len(c.rest) == 0 {
			c.buf = c.make(c.buf[:0])
			c.rest = c.buf
		}
		m := copy(p[n:], c.rest)
		c.rest = c.rest[m:]
		n += m
	}
	c.left -= int64(n)
	return n, nil
}

// textContent is lines of JSON such as logs and data sets have: names repeat, numbers
// and words differ. LZ4 makes about a third of it.
func textContent(seed uint64, n int64) io.Reader {
	rng := rand.New(rand.NewPCG(seed, 'j'))
	row := int64(0)
	return &content{left: n, make: func(b []byte) []byte {
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

// weightsContent is float32 numbers as the layers of a model have them: near zero, with
// exponents that resemble each other and mantissas that do not.
func weightsContent(seed uint64, n int64) io.Reader {
	rng := rand.New(rand.NewPCG(seed, 'w'))
	return &content{left: n, make: func(b []byte) []byte {
		for len(b) < 64<<10 {
			bits := rng.Uint64()
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(weight(uint32(bits))))
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(weight(uint32(bits>>32))))
		}
		return b
	}}
}

// weight is near enough to a normal distribution: the sum of three even ones.
func weight(bits uint32) float32 {
	sum := int32(bits&0x7ff) + int32(bits>>11&0x7ff) + int32(bits>>22&0x3ff)*2 - 3*1024
	return (float32(sum) + float32(bits>>3&0xff)/256) * 2e-5
}

// noiseContent does not shrink.
func noiseContent(seed uint64, n int64) io.Reader {
	rng := rand.New(rand.NewPCG(seed, 'n'))
	return &content{left: n, make: func(b []byte) []byte {
		for len(b) < 64<<10 {
			b = binary.LittleEndian.AppendUint64(b, rng.Uint64())
		}
		return b
	}}
}

// noise returns n bytes of it.
func noise(seed uint64, n int) []byte {
	b, err := io.ReadAll(noiseContent(seed, int64(n)))
	if err != nil {
		panic(err) // it only counts
	}
	return b
}

// A blockSums is a reference for files too big to be kept: the CRC-32C of every block.
type blockSums struct {
	size int64
	sums []uint32
	part uint32 // of the last block, so far
}

const sumBlock = 1 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Write implements io.Writer.
func (s *blockSums) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(int64(len(rest)), sumBlock-s.size%sumBlock)
		s.part = crc32.Update(s.part, castagnoli, rest[:n])
		s.size += n
		if s.size%sumBlock == 0 {
			s.sums, s.part = append(s.sums, s.part), 0
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// check compares the bytes of block i.
func (s *blockSums) check(i int64, b []byte) error {
	want := s.part
	if i < int64(len(s.sums)) {
		want = s.sums[i]
	}
	if want != crc32.Checksum(b, castagnoli) {
		return fmt.Errorf("block %d of %d bytes: its sum is wrong (I1)", i, len(b))
	}
	return nil
}

// blocks is how many there are.
func (s *blockSums) blocks() int64 { return (s.size + sumBlock - 1) / sumBlock }
