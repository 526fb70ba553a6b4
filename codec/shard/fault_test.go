package shard

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
)

// The tests of this file have the numbers of the catalogue of faults. They damage the stored
// example; helpers_test.go has its offsets.

// A fault is a damaged shard and what is said of it. Without an error it is good.
type fault struct {
	name string
	in   []byte
	err  string // of the Reader
}

// put8, put32 and put64 damage a shard at an offset.
var put8, put32, put64 = codectest.Put, codectest.Put32, codectest.Put64

// refuse reads all faults.
func refuse(t *testing.T, faults []fault) {
	t.Helper()
	for _, tt := range faults {
		t.Run(tt.name, func(t *testing.T) {
			_, err := seek(tt.in)
			if tt.err == "" {
				if err != nil {
					t.Errorf("error = %v, want none", err)
				}
				return
			}
			if err == nil || err.Error() != tt.err {
				t.Errorf("error = %v, want %q", err, tt.err)
			}
			if !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("error %v is not an ErrCorrupt", err)
			}
		})
	}
}

// cut removes the bytes from ≤ i < to.
func cut(b []byte, from, to int) []byte { return slices.Delete(bytes.Clone(b), from, to) }

// insert puts more in before byte at.
func insert(b []byte, at int, more ...byte) []byte { return slices.Insert(bytes.Clone(b), at, more...) }

func TestF29_Header(t *testing.T) {
	faults := []fault{
		{"version 1", put64(helloStored, 32, 1), "shard header at byte 32: version 1 is not known"},
		{"version 3", put64(helloStored, 32, 3), "shard header at byte 32: version 3 is not known"},
		{"version 2^63", put64(helloStored, 32, 1<<63), "shard header at byte 32: version 9223372036854775808 is not known"},
		{"another application", put8(helloStored, 0, []byte("MyRepoMetaData")...), "shard header at byte 0: magic is not that of a shard"},
		{"nothing", nil, "shard at byte 0: ends after 0 bytes, the smallest shard has 144"},
		{"half a header", helloStored[:20], "shard at byte 20: ends after 20 bytes, the smallest shard has 144"},
		{"one byte less than the smallest", emptyUpload[:143], "shard at byte 143: ends after 143 bytes, the smallest shard has 144"},
		{"zeros", make([]byte, 1000), "shard header at byte 0: magic is not that of a shard"},
	}
	for i := range 32 {
		faults = append(faults, fault{
			fmt.Sprintf("byte %d of the magic", i), codectest.Flip(helloStored, 8*i+i%8),
			fmt.Sprintf("shard header at byte %d: magic is not that of a shard", i),
		})
	}
	refuse(t, faults)
}

func TestF30_FooterSizeAndVersion(t *testing.T) {
	refuse(t, []fault{
		{"footer size 100", put64(helloStored, 40, 100), "shard header at byte 40: footer size 100 is neither 0 nor 200"},
		{"footer size 2^64-200", put64(helloStored, 40, math.MaxUint64-199), "shard header at byte 40: footer size 18446744073709551416 is neither 0 nor 200"},
		{"footer size 0 and a footer", put64(helloStored, 40, 0), ""},
		{"footer size 200 and no footer", put64(helloUpload, 40, 200), "shard footer at byte 232: version 0 is not known"},
		{"footer size 200 and no room for one", put64(emptyUpload, 40, 200), "shard at byte 144: ends after 144 bytes, the smallest shard with a footer has 344"},
		{"footer version 0", put64(helloStored, 472, 0), "shard footer at byte 472: version 0 is not known"},
		{"footer version 2", put64(helloStored, 472, 2), "shard footer at byte 472: version 2 is not known"},
		{"a byte behind the footer", append(bytes.Clone(helloStored), 0), "shard footer at byte 473: version 3458764513820540928 is not known"},
		{"footer without its first byte", cut(helloStored, 472, 473), "shard footer at byte 471: version 0 is not known"},
		{"a byte behind the last bookend", append(bytes.Clone(helloUpload), 0), "shard at byte 432: 1 byte behind the last bookend, and no footer among them"},
		{"200 bytes behind the last bookend", append(bytes.Clone(helloUpload), make([]byte, 200)...), "shard at byte 432: 200 bytes behind the last bookend, and no footer among them"},
	})
}

func TestF31_FooterOffsets(t *testing.T) {
	refuse(t, []fault{
		{"footer at 0", put64(helloStored, 472+192, 0), "shard footer at byte 664: says it begins at byte 0"},
		{"footer at 2^64-1", put64(helloStored, 472+192, math.MaxUint64), "shard footer at byte 664: says it begins at byte 18446744073709551615"},
		{"files at 0", put64(helloStored, 472+8, 0), "shard footer at byte 480: file info section begins at byte 0, not 48"},
		{"files in the second record", put64(helloStored, 472+8, 96), "shard footer at byte 480: file info section begins at byte 96, not 48"},
		{"xorbs before files", put64(helloStored, 472+16, 48), "shard footer at byte 488: CAS info section cannot begin at byte 48"},
		{"xorbs between records", put64(helloStored, 472+16, 290), "shard footer at byte 488: CAS info section cannot begin at byte 290"},
		{"xorbs behind the footer", put64(helloStored, 472+16, 480), "shard footer at byte 488: CAS info section cannot begin at byte 480"},
		{"xorbs where the bookend would not fit", put64(helloStored, 472+16, 432), "shard footer at byte 488: CAS info section cannot begin at byte 432"},
		{"xorbs one record late", put64(helloStored, 472+16, 336), "file info block at byte 240: bookend ends the section at byte 288, the footer says 336"},
		{"xorbs one record early", put64(helloStored, 472+16, 240), "file info block at byte 240: the section ends without a bookend"},
		{"a table before the sections end", put64(helloStored, 472+24, 300), "shard footer at byte 496: file lookup table cannot begin at byte 300"},
		{"a table inside the xorbs", put64(helloStored, 472+24, 336), "CAS info block at byte 288: 1 record wanted, 0 bytes left in the section"},
		{"a table behind the footer", put64(helloStored, 472+24, 1<<40), "shard footer at byte 496: file lookup table cannot begin at byte 1099511627776"},
		{"a table reaching into the footer", put64(helloStored, 472+56, 460), "shard footer at byte 536: chunk lookup table with count 1 does not fit into the 12 bytes before the footer"},
		{"two tables in one place", put64(helloStored, 472+40, 440), "shard footer at byte 512: CAS lookup table cannot begin at byte 440"},
		{"a gap behind the xorbs", insert(put64(helloKeyed, 240+192, 241), 240, 0), "CAS info block at byte 192: bookend ends the section at byte 240, the footer says 241"},
		{"an empty table anywhere", put64(put64(emptyStored, 144+24, 1<<63), 144+56, 1), ""},
	})
}

// allocated returns how many bytes do allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestF32_TableCounts(t *testing.T) {
	faults := []fault{}
	for _, table := range []struct {
		name  string
		field int
		entry uint64
	}{{"file", 24, 12}, {"CAS", 40, 12}, {"chunk", 56, 16}} {
		for _, count := range []uint64{2, 1 << 32, 1 << 40, math.MaxUint64/table.entry + 1, math.MaxUint64} {
			off := 472 + table.field + 8
			in := put64(helloStored, off, count)
			left := 472 - le.Uint64(in[off-8:])
			want := fmt.Sprintf("shard footer at byte %d: %s lookup table with count %d does not fit into the %d bytes before the footer",
				off, table.name, count, left)
			if count == 2 && table.name != "chunk" { // they fit, over the table behind
				at := le.Uint64(in[off+8:])
				want = fmt.Sprintf("shard footer at byte %d: %s lookup table cannot begin at byte %d",
					off+8, map[string]string{"file": "CAS", "CAS": "chunk"}[table.name], at)
			}
			faults = append(faults, fault{fmt.Sprintf("%s table with %d entries", table.name, count), in, want})
			if n := allocated(func() { open(in) }); n > 1<<16 {
				t.Errorf("%s table with %d entries: %d bytes allocated", table.name, count, n)
			}
		}
	}
	refuse(t, faults)
}

func TestF33_Counts(t *testing.T) {
	counts := func(flags, n uint32) []byte { return put32(put32(helloStored, 48+32, flags), 48+36, n) }
	faults := []fault{
		{"2^32-1 terms", counts(0, math.MaxUint32), "file info block at byte 48: 4294967295 records wanted, 192 bytes left in the section"},
		{"2^32-1 terms with verification", counts(flagVerify, math.MaxUint32), "file info block at byte 48: 8589934590 records wanted, 192 bytes left in the section"},
		{"2^31-1 terms with verification and SHA-256", counts(flagVerify|flagMetadata, math.MaxInt32), "file info block at byte 48: 4294967295 records wanted, 192 bytes left in the section"},
		{"2^31 terms with verification and SHA-256", counts(flagVerify|flagMetadata, 1<<31), "file info block at byte 48: 4294967297 records wanted, 192 bytes left in the section"},
		{"one term too many", counts(flagMetadata, 4), "file info block at byte 48: 5 records wanted, 192 bytes left in the section"},
		{"2^32-1 chunks", put32(helloStored, 288+36, math.MaxUint32), "CAS info block at byte 288: 4294967295 records wanted, 96 bytes left in the section"},
		{"one chunk too many", put32(helloStored, 288+36, 3), "CAS info block at byte 288: 3 records wanted, 96 bytes left in the section"},
		{"the bookend as a chunk", put32(helloStored, 288+36, 2), "CAS info block at byte 288: chunk 1: begins at byte 0, the chunk before it ends at 12"},
		{"no chunks", put32(helloStored, 288+36, 0), "CAS info block at byte 288: a xorb without chunks"},
	}
	refuse(t, faults)
	for _, tt := range faults {
		n := allocated(func() {
			seek(tt.in)
			ReadFileInfo(bytes.NewReader(tt.in), 48)
		})
		if n > 2*scanBuffer+1<<16 {
			t.Errorf("%s: %d bytes allocated", tt.name, n)
		}
	}
	many := make([]byte, recordSize*(codec.MaxXorbChunks+1))
	for i := range codec.MaxXorbChunks + 1 {
		le.PutUint32(many[48*i+32:], uint32(i))
		le.PutUint32(many[48*i+36:], 1)
	}
	in := slices.Concat(helloUpload[:288], put32(put32(helloUpload[288:336], 36, codec.MaxXorbChunks+1), 40, codec.MaxXorbChunks+1), many, helloUpload[384:])
	refuse(t, []fault{{"8193 chunks", in, "CAS info block at byte 288: 8193 chunks are more than a xorb has"}})
}

func TestF34_Bookends(t *testing.T) {
	bookend := appendBookend(nil)
	zeros := make([]byte, 48)
	refuse(t, []fault{
		{"none behind the files", put8(helloStored, 240, zeros...), "file info block at byte 288: the section ends without a bookend"},
		{"none behind the xorbs", put8(helloStored, 384, zeros...), "CAS info block at byte 384: a xorb without chunks"},
		{"none at the end of an upload", helloUpload[:384], "CAS info block at byte 384: the section ends without a bookend"},
		{"half of one at the end of an upload", helloUpload[:408], "CAS info block at byte 384: the section ends without a bookend"},
		{"in the place of a file", put8(helloStored, 48, bookend...), "file info block at byte 48: bookend ends the section at byte 96, the footer says 288"},
		{"in the place of a file of an upload", put8(helloUpload, 48, bookend...), "CAS info block at byte 96: 12 records wanted, 288 bytes left in the section"},
		{"in the place of a xorb", put8(helloStored, 288, bookend...), "CAS info block at byte 288: bookend ends the section at byte 336, the footer says 432"},
		{"a dirty tail behind the files", put8(helloStored, 240+47, 1), "file info block at byte 240: bookend does not end in zeros"},
		{"a dirty tail behind the xorbs", put8(helloStored, 384+32, 1), "CAS info block at byte 384: bookend does not end in zeros"},
		{"a bookend that is not quite one", put8(helloStored, 240+31, 0xfe), "file info block at byte 288: the section ends without a bookend"},
		{"an upload cut in a term", helloUpload[:100+48], "file info block at byte 48: 3 records wanted, 52 bytes left in the section"},
		{"an upload cut in a chunk", helloUpload[:350], "CAS info block at byte 288: 1 record wanted, 14 bytes left in the section"},
		{"cut behind the files", helloUpload[:288], "CAS info block at byte 288: the section ends without a bookend"},
	})
}

func TestF36_EqualKeys(t *testing.T) {
	w := new(Writer)
	for i := range byte(5) {
		f := *helloFile(t)
		f.File[31] = i
		f.Terms = slices.Repeat(f.Terms, int(i)+1)
		f.Verify = slices.Repeat(f.Verify, int(i)+1)
		w.AddFile(&f)
		x := *helloXorb(t)
		x.Xorb[31] = i
		x.Packed = uint32(i) + 1
		w.AddXorb(&x)
	}
	for name, encode := range map[string]func() ([]byte, error){"stored": w.Encode, "upload": w.EncodeUpload} {
		b, err := encode()
		if err != nil {
			t.Fatal(err)
		}
		r, err := open(b)
		if err != nil {
			t.Fatal(err)
		}
		for i := range byte(6) {
			file, xorb := helloFile(t).File, helloXorb(t).Xorb
			file[31], xorb[31] = i, i
			f, fileErr := r.FileInfo(file)
			x, xorbErr := r.XorbInfo(xorb)
			switch {
			case i == 5 && (fileErr != ErrNoFile || xorbErr != ErrNoXorb):
				t.Errorf("%s: errors = %v, %v for a hash that only shares the key", name, fileErr, xorbErr)
			case i < 5 && (fileErr != nil || xorbErr != nil):
				t.Errorf("%s: hash %d: %v, %v", name, i, fileErr, xorbErr)
			case i < 5 && (len(f.Terms) != int(i)+1 || x.Packed != uint32(i)+1):
				t.Errorf("%s: hash %d found %d terms and a xorb of %d bytes", name, i, len(f.Terms), x.Packed)
			}
		}
	}
}

func TestF37_Terms(t *testing.T) {
	term := func(start, end, size uint32) []byte {
		return put32(put32(put32(helloStored, 96+40, start), 96+44, end), 96+36, size)
	}
	refuse(t, []fault{
		{"no chunks", term(0, 0, 12), "file info block at byte 48: term 0: [0, 0) are no chunks"},
		{"backwards", term(5, 2, 12), "file info block at byte 48: term 0: [5, 2) are no chunks"},
		{"behind the largest xorb", term(8192, 8193, 12), "file info block at byte 48: term 0: chunks [8192, 8193) are more than a xorb has"},
		{"the last chunk of the largest xorb", term(8191, 8192, 12), ""},
		{"no bytes", term(0, 1, 0), "file info block at byte 48: term 0: chunks [0, 1) cannot have 0 bytes"},
		{"fewer bytes than chunks", term(0, 3, 2), "file info block at byte 48: term 0: chunks [0, 3) cannot have 2 bytes"},
		{"more bytes than a chunk can have", term(0, 1, 131073), "file info block at byte 48: term 0: chunks [0, 1) cannot have 131073 bytes"},
		{"as many bytes as a chunk can have", term(0, 1, 131072), ""},
		{"unknown xorb", put8(helloStored, 96, 1), ""}, // it may be in another shard
		{"unknown flags", put32(put32(put32(helloStored, 80, 0xc0001001), 96+32, 7), 288+32, 9), ""},
		{"unused fields", put64(put64(put32(helloStored, 336+44, 5), 48+40, 5), 144+40, 5), ""},
		{"verification in some files only", verifyMixed(), "file info block at byte 240: some files of the shard have verification hashes and some have none"},
	})
}

// verifyMixed has two files, and verification hashes for the first.
func verifyMixed() []byte {
	second := slices.Concat(put32(put8(helloUpload[48:96], 31, 0xff), 32, 0), helloUpload[96:144])
	return slices.Concat(helloUpload[:240], second, helloUpload[240:])
}

// A term is compared with its xorb where that is known; other terms stay readable.
func TestF37_CheckTerm(t *testing.T) {
	x := &XorbInfo{Unpacked: 60, Chunks: []Chunk{{Size: 10}, {Start: 10, Size: 20}, {Start: 30, Size: 30}}}
	tests := []struct {
		start, end, size uint32
		err              string
	}{
		{0, 3, 60, ""},
		{1, 3, 50, ""},
		{2, 3, 30, ""},
		{0, 4, 60, "corrupt data: chunks [0, 4) of a xorb with 3 chunks"},
		{2, 2, 0, "corrupt data: chunks [2, 2) of a xorb with 3 chunks"},
		{2, 1, 0, "corrupt data: chunks [2, 1) of a xorb with 3 chunks"},
		{0, math.MaxUint32, 0, "corrupt data: chunks [0, 4294967295) of a xorb with 3 chunks"},
		{0, 2, 31, "corrupt data: chunks [0, 2) have 30 bytes, the term says 31"},
	}
	for _, tt := range tests {
		err := x.CheckTerm(codec.Term{Chunks: codec.ChunkRange{Start: tt.start, End: tt.end}, Size: tt.size})
		if (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("CheckTerm([%d, %d), %d bytes) = %v, want %q", tt.start, tt.end, tt.size, err, tt.err)
		}
	}
}

// One bad file does not hide the others, in scans nor in lookups.
func TestF37_OtherFilesAreStillRead(t *testing.T) {
	good := codectest.Read(t, "testdata/stored.shard")
	want, err := seek(good)
	if err != nil {
		t.Fatal(err)
	}
	bad := want.files[3]
	for name, in := range map[string][]byte{"table": good, "no table": codectest.Read(t, "testdata/uploaded.shard")} {
		r, err := open(put32(in, int(bad.Block)+48+44, 0))
		if err != nil {
			t.Fatal(err)
		}
		var files, heads, errs int
		for f, err := range r.Files() {
			if err != nil {
				errs++
			} else if f != nil {
				files++
			}
		}
		for _, err := range r.Heads() {
			if err == nil {
				heads++
			}
		}
		if n := len(want.files); files != n-1 || heads != n-1 || errs != 1 {
			t.Errorf("%s: %d files, %d heads and %d errors of %d files", name, files, heads, errs, n)
		}
		for _, f := range want.files {
			if _, err := r.FileInfo(f.File); (err != nil) != (f == bad) {
				t.Errorf("%s: file %s: %v", name, f.File.Short(), err)
			}
		}
	}
}

// No sum can reach 2^63, because no term can have more bytes than its chunks.
func TestF38_Sums(t *testing.T) {
	refuse(t, []fault{
		{"a term of 2^32-1 bytes", put32(helloStored, 96+36, math.MaxUint32), "file info block at byte 48: term 0: chunks [0, 1) cannot have 4294967295 bytes"},
		{"a chunk of 2^32-1 bytes", put32(helloStored, 336+36, math.MaxUint32), "CAS info block at byte 288: chunk 0: size 4294967295 is out of range"},
		{"a chunk of no bytes", put32(helloStored, 336+36, 0), "CAS info block at byte 288: chunk 0: size 0 is out of range"},
		{"a chunk of one byte too many", put32(helloStored, 336+36, 131073), "CAS info block at byte 288: chunk 0: size 131073 is out of range"},
		{"a chunk of other size", put32(helloStored, 336+36, 13), "CAS info block at byte 288: the chunks have 13 bytes, the header says 12"},
		{"a xorb of other size", put32(helloStored, 288+40, 11), "CAS info block at byte 288: the chunks have 12 bytes, the header says 11"},
		{"a chunk in another place", put32(helloStored, 336+32, 7), "CAS info block at byte 288: chunk 0: begins at byte 7, the chunk before it ends at 0"},
		{"totals that are wrong", put64(put64(put64(helloStored, 640, 1), 648, 1), 656, 1), ""}, // no reader needs them
	})
	if worst := uint64(math.MaxUint32) * codec.MaxXorbChunks * codec.MaxChunkSize; worst >= 1<<63 {
		t.Errorf("a file can have %d bytes", worst)
	}
}

// Two blocks for one hash: a lookup returns the first, Files both, so that a caller can find
// the right one.
func TestF41_OneHashTwice(t *testing.T) {
	first, second := helloFile(t), helloFile(t)
	second.Terms = slices.Repeat(second.Terms, 2)
	second.Verify = slices.Repeat(second.Verify, 2)
	w := new(Writer)
	w.AddFile(first)
	w.AddFile(second)
	w.AddXorb(helloXorb(t))
	w.AddXorb(helloXorb(t))
	for name, encode := range map[string]func() ([]byte, error){"stored": w.Encode, "upload": w.EncodeUpload} {
		b, err := encode()
		if err != nil {
			t.Fatal(err)
		}
		c, err := seek(b)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.files) != 2 || len(c.files[0].Terms) != 1 || len(c.files[1].Terms) != 2 || len(c.xorbs) != 2 {
			t.Errorf("%s: %d files, %d xorbs", name, len(c.files), len(c.xorbs))
		}
		r, err := open(b)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := r.FileInfo(first.File); err != nil || len(f.Terms) != 1 {
			t.Errorf("%s: FileInfo = %v, %v, want the first", name, f, err)
		}
	}
}

func TestF42_KeyedHashes(t *testing.T) {
	for name, keyed := range map[string]bool{"stored": false, "uploaded": false, "keyed": true, "minimal": false, "js": false} {
		b := codectest.Read(t, "testdata/"+name+".shard")
		c, err := seek(b)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := Describe(&text, b); err != nil {
			t.Fatal(err)
		}
		said := strings.Contains(text.String(), "chunk hashes are keyed: not for checking data")
		if c.meta.Keyed != keyed || said != keyed || (c.meta.Key != [32]byte{}) != keyed {
			t.Errorf("%s: Keyed = %v with key %x, described %v, want %v", name, c.meta.Keyed, c.meta.Key, said, keyed)
		}
	}
}
