package shard

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xetfs/xetfs/codec"
)

// The examples of the format's specification, 48 bytes a line. All tell of one file
// with the bytes "Hello World!" in one chunk, or of nothing. The offsets in the stored
// form are those that most tests damage:
//
//	 48 file header   192 sha256     336 chunk            444 CAS lookup table
//	 96 term          240 bookend    384 bookend          456 chunk lookup table
//	144 verification  288 xorb       432 file lookup table 472 footer
var (
	emptyUpload = unhex(`
		48465265706f4d6574614461746100556967456a7b815783a5bdd95ccdd14aa902000000000000000000000000000000
		ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00000000000000000000000000000000
		ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00000000000000000000000000000000
	`)

	emptyStored = unhex(`
		48465265706f4d6574614461746100556967456a7b815783a5bdd95ccdd14aa90200000000000000c800000000000000
		ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00000000000000000000000000000000
		ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00000000000000000000000000000000
		010000000000000030000000000000006000000000000000900000000000000000000000000000009000000000000000
		000000000000000090000000000000000000000000000000000000000000000000000000000000000000000000000000
		00000000000000000000000000000000ffffffffffffffff000000000000000000000000000000000000000000000000
		000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
		9000000000000000
	`)

	emptyFileUpload = unhex(`
		48465265706f4d6574614461746100556967456a7b815783a5bdd95ccdd14aa902000000000000000000000000000000
		0000000000000000000000000000000000000000000000000000000000000000000000c0000000000000000000000000
		000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
		ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00000000000000000000000000000000
		ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00000000000000000000000000000000
	`)

	helloUpload = unhex(`
		48465265706f4d6574614461746100556967456a7b815783a5bdd95ccdd14aa902000000000000000000000000000000
		bd60b088ade0daa9b195cfbd7ac8e7d74f6db014045ac9326571b887d268eb6b000000c0010000000000000000000000
		a29cfb08e608d4d8726dd8659a90b9134b3240d5d8e42d5fcb28e2a6e763a3e8000000000c0000000000000001000000
		4ccb988e4563cb8923b7a7a5506bbe7592e648535df0824b2b86c35daf1ab75f00000000000000000000000000000000
		53fcf17f65b1837f5dd6a14881c12db92877d6a31f4b2dfc69906d1200d2dd4a00000000000000000000000000000000
		ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00000000000000000000000000000000
		a29cfb08e608d4d8726dd8659a90b9134b3240d5d8e42d5fcb28e2a6e763a3e800000000010000000c00000000000000
		a29cfb08e608d4d8726dd8659a90b9134b3240d5d8e42d5fcb28e2a6e763a3e8000000000c0000000000000000000000
		ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00000000000000000000000000000000
	`)

	helloStored = unhex(`
		48465265706f4d6574614461746100556967456a7b815783a5bdd95ccdd14aa90200000000000000c800000000000000
		bd60b088ade0daa9b195cfbd7ac8e7d74f6db014045ac9326571b887d268eb6b000000c0010000000000000000000000
		a29cfb08e608d4d8726dd8659a90b9134b3240d5d8e42d5fcb28e2a6e763a3e8000000000c0000000000000001000000
		4ccb988e4563cb8923b7a7a5506bbe7592e648535df0824b2b86c35daf1ab75f00000000000000000000000000000000
		53fcf17f65b1837f5dd6a14881c12db92877d6a31f4b2dfc69906d1200d2dd4a00000000000000000000000000000000
		ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00000000000000000000000000000000
		a29cfb08e608d4d8726dd8659a90b9134b3240d5d8e42d5fcb28e2a6e763a3e800000000010000000c00000000000000
		a29cfb08e608d4d8726dd8659a90b9134b3240d5d8e42d5fcb28e2a6e763a3e8000000000c0000000000000000000000
		ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00000000000000000000000000000000
		bd60b088ade0daa900000000a29cfb08e608d4d800000000a29cfb08e608d4d800000000000000000100000000000000
		30000000000000002001000000000000b0010000000000000100000000000000bc010000000000000100000000000000
		c80100000000000001000000000000000000000000000000000000000000000000000000000000000000000000000000
		0000000000000000ffffffffffffffff0000000000000000000000000000000000000000000000000000000000000000
		0000000000000000000000000000000000000000000000000c000000000000000c00000000000000d801000000000000
	`)

	helloKeyed = unhex(`
		48465265706f4d6574614461746100556967456a7b815783a5bdd95ccdd14aa90200000000000000c800000000000000
		ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00000000000000000000000000000000
		a29cfb08e608d4d8726dd8659a90b9134b3240d5d8e42d5fcb28e2a6e763a3e800000000010000000c00000000000000
		0d2c593efc51f45c1e1ac2c04897f380006fa0071f802166ce3ce77649700f41000000000c0000000000008000000000
		ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00000000000000000000000000000000
		010000000000000030000000000000006000000000000000f0000000000000000000000000000000f000000000000000
		0000000000000000f00000000000000000000000000000008967452301efcdab8967452301efcdab8967452301efcdab
		8967452301efcdab00f1536500000000802b5d6500000000000000000000000000000000000000000000000000000000
		000000000000000000000000000000000000000000000000000000000000000000000000000000000c00000000000000
		f000000000000000
	`)
)

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		panic(err)
	}
	return b
}

func parseHash(t testing.TB, s string) codec.Hash {
	t.Helper()
	h, err := codec.ParseHash(s)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// contents is all a shard has.
type contents struct {
	files []*FileInfo
	xorbs []*XorbInfo
	meta  Meta
}

func open(b []byte) (*Reader, error) { return NewReader(bytes.NewReader(b), int64(len(b))) }

// seek reads a shard with a Reader, every block also by its hash.
func seek(b []byte) (contents, error) {
	r, err := open(b)
	if err != nil {
		return contents{}, err
	}
	c, err := scan(r)
	if err != nil {
		return contents{}, err
	}
	for _, f := range c.files {
		if got, err := r.FileInfo(f.File); err != nil {
			return contents{}, fmt.Errorf("file %s: %w", f.File, err)
		} else if got.File != f.File {
			return contents{}, fmt.Errorf("file %s: lookup found %s", f.File, got.File)
		}
	}
	for _, x := range c.xorbs {
		if got, err := r.XorbInfo(x.Xorb); err != nil {
			return contents{}, fmt.Errorf("xorb %s: %w", x.Xorb, err)
		} else if got.Xorb != x.Xorb {
			return contents{}, fmt.Errorf("xorb %s: lookup found %s", x.Xorb, got.Xorb)
		}
	}
	return c, nil
}

// scan reads a shard with a Reader, without lookups.
func scan(r *Reader) (contents, error) {
	c := contents{meta: r.Meta()}
	for f, err := range r.Files() {
		if err != nil {
			return contents{}, err
		}
		c.files = append(c.files, f)
	}
	for x, err := range r.Xorbs() {
		if err != nil {
			return contents{}, err
		}
		c.xorbs = append(c.xorbs, x)
	}
	return c, nil
}

// diff says how two shards differ, or nothing.
func diff(want, got contents) string {
	if reflect.DeepEqual(want, got) {
		return "" // many times faster than the page for people
	}
	return "want (-), got (+):\n" + cmp.Diff(want, got, cmp.AllowUnexported(contents{}))
}

// content is c without what a Writer may change: places, and how an empty file is
// marked. Empty slices are nil.
func (c contents) content() contents {
	var out contents
	for _, f := range c.files {
		f := *f
		f.Block = 0
		if len(f.Terms) == 0 {
			f.Terms, f.Verify = nil, nil
		}
		out.files = append(out.files, &f)
	}
	out.xorbs = append(out.xorbs, c.xorbs...)
	return out
}

// writer returns a Writer that was given c.
func (c contents) writer() *Writer {
	w := new(Writer)
	for _, f := range c.files {
		w.AddFile(f)
	}
	for _, x := range c.xorbs {
		w.AddXorb(x)
	}
	return w
}
