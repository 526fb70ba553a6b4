package shard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
)

// A table that is damaged never yields a wrong block; the scan of the sections
// does not need it, and CheckTables names the entry.
func TestF35_LookupTables(t *testing.T) {
	good := codectest.Read(t, "testdata/stored.shard") // 8 files, 1 xorb, 14 chunks
	r, err := open(good)
	if err != nil {
		t.Fatal(err)
	}
	files, xorbs, chunks := int(r.meta.FileTable.Offset), int(r.meta.XorbTable.Offset), int(r.meta.ChunkTable.Offset)
	tests := []struct {
		name   string
		in     []byte
		lookup string // what at least one lookup says, or nothing if none notices
		check  string // what CheckTables says
	}{
		{"unsorted", swap(good, files, files+7*12, 12),
			"file lookup table at byte 2316: entry 1: key 1572745973d51d60 is out of order",
			"file lookup table at byte 2316: entry 1: key 1572745973d51d60 is out of order"},
		{"an entry twice", put8(good, files+12, good[files:files+12]...),
			"file lookup table at byte 2316: entry 1: repeats the entry before it",
			"file lookup table at byte 2316: entry 1: names the block at byte 48 once more"},
		{"a block twice under its key", put8(good, files+24, good[files+12:files+24]...),
			"file lookup table at byte 2328: entry 2: repeats the entry before it",
			"file lookup table at byte 2328: entry 2: names the block at byte 144 once more"},
		{"into a block", put32(good, files+12+8, 3),
			"file lookup table at byte 2304: puts key 1572745973d51d60 at byte 192, where no such block begins",
			"file lookup table at byte 2316: entry 1: no block begins at byte 192"},
		{"to another block", put32(good, files+12+8, 0),
			"file lookup table at byte 2304: puts key 1572745973d51d60 at byte 48, where no such block begins",
			"file lookup table at byte 2316: entry 1: key 1572745973d51d60, the block at byte 48 has 0000000000000000"},
		{"behind the section", put32(good, files+12+8, 1<<30),
			"file lookup table at byte 2304: points to byte 51539607600, behind the section",
			"file lookup table at byte 2316: entry 1: no block begins at byte 51539607600"},
		{"to the bookend", put64(put32(good, files+7*12+8, 30), files+7*12, ^uint64(0)),
			"file lookup table at byte 2304: points to byte 1488, behind the section",
			"file lookup table at byte 2388: entry 7: no block begins at byte 1488"},
		{"all zero", put8(good, files, make([]byte, 96)...),
			"file lookup table at byte 2316: entry 1: repeats the entry before it",
			"file lookup table at byte 2316: entry 1: names the block at byte 48 once more"},
		{"xorb behind the section", put32(good, xorbs+8, 15),
			"CAS lookup table at byte 2400: points to byte 2256, behind the section",
			"CAS lookup table at byte 2400: entry 0: no block begins at byte 2256"},
		{"key of a xorb", put64(good, xorbs, 1),
			"CAS lookup table at byte 2400: puts key 0000000000000001 at byte 1536, where no such block begins",
			"CAS lookup table at byte 2400: entry 0: key 0000000000000001, the block at byte 1536 has d7a1fb3207dd2ec9"},
		{"chunk of no xorb", put32(good, chunks+8, 1<<30), "",
			"chunk lookup table at byte 2412: entry 0: there is no chunk 9 of a xorb at record 1073741824"},
		{"no such chunk", put32(good, chunks+12, 14), "",
			"chunk lookup table at byte 2412: entry 0: there is no chunk 14 of a xorb at record 0"},
		{"another chunk", put32(good, chunks+12, 1), "",
			"chunk lookup table at byte 2412: entry 0: key 025605e0fa1a5dc4, the chunk at record 2 has 95cae8c0048ead41"},
		{"a chunk twice", put8(good, chunks+16, good[chunks:chunks+16]...), "",
			"chunk lookup table at byte 2428: entry 1: names the chunk at record 10 once more"},
		{"chunks unsorted", swap(good, chunks, chunks+13*16, 16), "",
			"chunk lookup table at byte 2428: entry 1: key 5569e4d6ae018c65 is out of order"},
		{"fewer files than there are", shorten(good, 24), "",
			"file lookup table at byte 2304: 7 entries, the section has 8"},
		{"fewer chunks than there are", shorten(good, 56), "",
			"chunk lookup table at byte 2412: 13 entries, the section has 14"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := open(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.CheckTables(); err == nil || err.Error() != tt.check || !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("CheckTables = %v, want %q", err, tt.check)
			}
			c, err := scan(r)
			if err != nil || len(c.files) != 8 || len(c.xorbs) != 1 {
				t.Fatalf("scan: %d files, %d xorbs, %v", len(c.files), len(c.xorbs), err)
			}
			said := lookups(t, r, c)
			if tt.lookup != "" && !slices.Contains(said, tt.lookup) {
				t.Errorf("lookups said %q, want %q", said, tt.lookup)
			}
		})
	}
}

// lookups looks all blocks of c up and returns what the errors say.
func lookups(t *testing.T, r *Reader, c contents) (said []string) {
	for _, f := range c.files {
		got, err := r.FileInfo(f.File)
		if err != nil {
			said = append(said, err.Error())
		} else if got.File != f.File {
			t.Errorf("FileInfo(%s) = %s", f.File, got.File)
		}
	}
	for _, x := range c.xorbs {
		got, err := r.XorbInfo(x.Xorb)
		if err != nil {
			said = append(said, err.Error())
		} else if got.Xorb != x.Xorb {
			t.Errorf("XorbInfo(%s) = %s", x.Xorb, got.Xorb)
		}
	}
	return said
}

// swap exchanges n bytes at i and j.
func swap(b []byte, i, j, n int) []byte {
	return put8(put8(b, i, b[j:j+n]...), j, b[i:i+n]...)
}

// shorten takes one off the count of a table.
func shorten(b []byte, field int) []byte {
	off := len(b) - footerSize + field + 8
	return put64(b, off, le.Uint64(b[off:])-1)
}

// More entries of one key than any honest shard has are not read through.
func TestF35_ManyEqualKeys(t *testing.T) {
	w := new(Writer)
	for i := range maxEqual + 1 {
		f := *helloFile(t)
		f.File[31] = byte(i)
		w.AddFile(&f)
	}
	b, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	r, err := open(b)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.FileInfo(helloFile(t).File)
	if want := "more than 8 entries have key a9dae0ad88b060bd"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error = %v, want %q", err, want)
	}
}

// manyFiles returns a Writer with n files of one term each, and their hashes.
func manyFiles(n int) (*Writer, []codec.Hash) {
	w := new(Writer)
	b := codectest.Bytes(42, 64*n)
	files := make([]FileInfo, n)
	hashes := make([]codec.Hash, n)
	terms := make([]codec.Term, n)
	verify := make([]codec.Hash, n)
	xorb := codec.Hash(b[32:])
	for i := range files {
		hashes[i] = codec.Hash(b[64*i:])
		verify[i] = codec.Hash(b[64*i+32:])
		terms[i] = codec.Term{Xorb: xorb, Chunks: codec.ChunkRange{Start: uint32(i % 8000), End: uint32(i%8000) + 1}, Size: 1000}
		files[i] = FileInfo{File: hashes[i], Terms: terms[i : i+1 : i+1], Verify: verify[i : i+1 : i+1], SHA256: verify[i]}
		w.AddFile(&files[i])
	}
	return w, hashes
}

// counter counts what is read.
type counter struct {
	r            io.ReaderAt
	reads, bytes atomic.Int64
}

func (c *counter) ReadAt(p []byte, off int64) (int, error) {
	c.reads.Add(1)
	c.bytes.Add(int64(len(p)))
	return c.r.ReadAt(p, off)
}

// A lookup reads a few KiB, however many files there are, whether it finds or not.
func TestLookupReadsLittle(t *testing.T) {
	w, hashes := manyFiles(100_000)
	b, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{r: bytes.NewReader(b)}
	r, err := NewReader(c, int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if n := c.bytes.Load(); n > 1<<10 {
		t.Errorf("NewReader reads %d bytes", n)
	}
	var most, all int64
	start := time.Now()
	for i := 0; i < len(hashes); i += 100 {
		c.bytes.Store(0)
		f, err := r.FileInfo(hashes[i])
		if err != nil || f.File != hashes[i] {
			t.Fatal(err)
		}
		absent := hashes[i]
		absent[7] ^= 0x55
		if _, err := r.FileInfo(absent); err != ErrNoFile {
			t.Fatal(err)
		}
		most, all = max(most, c.bytes.Load()), all+c.bytes.Load()
	}
	n := int64(len(hashes) / 100)
	t.Logf("two lookups of %d files: %d bytes, at most %d, in %v", len(hashes), all/n, most, time.Since(start)/time.Duration(n))
	if all/n > 12<<10 || most > 32<<10 {
		t.Errorf("two lookups read %d bytes, at most %d", all/n, most)
	}
}

// Keys that are not spread like hashes cost more reads, but not many.
func TestLookupInUnevenTable(t *testing.T) {
	w := new(Writer)
	var hashes []codec.Hash
	for i := range uint64(20_000) {
		f := *helloFile(t)
		key := i
		if i%2 == 1 {
			key = ^uint64(0) - i*i
		}
		binary.LittleEndian.PutUint64(f.File[:], key)
		hashes = append(hashes, f.File)
		w.AddFile(&f)
	}
	b, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{r: bytes.NewReader(b)}
	r, err := NewReader(c, int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(hashes); i += 13 {
		h := hashes[i]
		c.reads.Store(0)
		if f, err := r.FileInfo(h); err != nil || f.File != h {
			t.Fatal(h, err)
		}
		if n := c.reads.Load(); n > maxInterpolations+20 {
			t.Fatalf("%s: %d reads", h, n)
		}
	}
}

// Every key is found by search, and every gap between keys, in tables of many sizes.
func TestSearch(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, window - 1, window, window + 1, 3 * window, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var table []byte
			for i := range n {
				table = le.AppendUint64(table, uint64(3*i+3))
				table = le.AppendUint32(table, uint32(i))
			}
			s := section{r: bytes.NewReader(table), what: inFile, table: Table{Count: uint64(n)}}
			for key := range uint64(3*n + 6) {
				want := min(max(key+2, 3)/3-1, uint64(n))
				if got, err := s.search(key); err != nil || got != want {
					t.Fatalf("search(%d) = %d, %v, want %d", key, got, err, want)
				}
			}
		})
	}
}
