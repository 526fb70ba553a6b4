package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

const demo = "../../integration/testdata/demo"

// flips is how many bits TestVerifyFindsFlips changes: XETFS_FLIPS, or enough to take a
// few seconds.
func flips(t *testing.T) int {
	if s := os.Getenv("XETFS_FLIPS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 30
}

// sample fills a folder with shards and xorbs of every form and returns their names. Some are
// named by their hash; some lack a footer, tables or verification hashes.
func sample(t *testing.T, folder string) []string {
	t.Helper()
	sources, err := filepath.Glob(demo + "/store/*/*")
	if err != nil || len(sources) == 0 {
		t.Fatal("no sample", err)
	}
	if vectors := os.Getenv("XETFS_VECTORS"); vectors != "" {
		for _, f := range []string{
			"core/shards/keyed/never.shard",
			"core/xorbs/stored/40f22f626aa1e8cf93863c1192c6410ad96a68da45bc3aed4748b47eddfbba96.xorb",
			"core/shards/minimal/many-xorbs.shard",
			"core/shards/variants/no-verification--c98961cfb4d728132d6f6bc89293c8bbb52609c67ba0196cbd8aae660d381e0a.mdb",
			"core/shards/sliced/one-chunk-1-byte--af91eaabe72a8b2b326eca88ab870a9410f615b754e1fce329c9a07e5878f03b.mdb",
			"core/xorbs/sliced/one-chunk-1-byte.xorb",
			"js/shards/0021.shard",
			"js/xorbs/42ddf0af10ad8dc490d96a097ee89dbda1d9ddb8d58fe890216dfd2526a955f6.xorb",
		} {
			sources = append(sources, filepath.Join(vectors, f))
		}
	}
	var names []string
	for _, s := range sources {
		if filepath.Base(s) == "versions.shard" {
			continue // its files are large, and those of version-3.shard much the same
		}
		names = append(names, copyTo(t, s, filepath.Join(folder, filepath.Base(s))))
		if name, _, ok := strings.Cut(filepath.Base(s), "--"); ok { // once more, without its hash
			names = append(names, copyTo(t, s, filepath.Join(folder, name+".mdb")))
		}
	}
	return names
}

func copyTo(t *testing.T, from, to string) string {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// verifyFolder runs verify and returns what it prints and its exit status.
func verifyFolder(folder string) (string, int) {
	var out, errs bytes.Buffer
	status := run(context.Background(), []string{"verify", folder}, nil, &out, &errs)
	return out.String() + errs.String(), status
}

// Every flipped bit is found and its file named, unless nothing covers it.
func TestVerifyFindsFlips(t *testing.T) {
	folder := t.TempDir()
	files := sample(t, folder)
	f := newFlipper(t, folder)
	random := rand.New(rand.NewPCG(3, 1415))
	for range flips(t) {
		file := files[random.IntN(len(files))]
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		f.flip(t, file, random.Int64N(8*info.Size()))
	}
	t.Logf("%d found, not covered: %v", f.found, f.excepted)
}

// The same for every bit, or every 23rd, of a shard in both forms and a xorb whose names
// say nothing.
func TestVerifyFindsEveryFlip(t *testing.T) {
	step := int64(23)
	if flips(t) >= 1000 {
		step = 1
	}
	for _, tables := range []bool{false, true} {
		folder := t.TempDir()
		files := tiny(t, folder, tables)
		f := newFlipper(t, folder)
		for _, file := range files {
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			for bit := int64(0); bit < 8*info.Size(); bit += step {
				f.flip(t, file, bit)
			}
		}
		t.Logf("tables %v: %d found, not covered: %v", tables, f.found, f.excepted)
	}
}

// A flipper changes bits and looks whether verify notices.
type flipper struct {
	folder   string
	found    int
	excepted map[string]int
}

func newFlipper(t *testing.T, folder string) *flipper {
	t.Helper()
	if out, status := verifyFolder(folder); status != exitGood {
		t.Fatalf("the sample itself: status %d\n%s", status, out)
	}
	return &flipper{folder: folder, excepted: map[string]int{}}
}

func (f *flipper) flip(t *testing.T, file string, bit int64) {
	t.Helper()
	original, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(original)
	flipped[bit/8] ^= 1 << (bit % 8)
	write(t, file, flipped)
	out, status := verifyFolder(f.folder)
	write(t, file, original)

	name := filepath.Base(file)
	switch reason := uncovered(name, original, flipped, bit/8); {
	case status == exitDamage && (strings.Contains(out, name+": ") || strings.Contains(out, ": "+name+"\n")):
		f.found++
	case status == exitDamage:
		t.Errorf("%s: bit %d of byte %d: found, but not named:\n%s", name, bit%8, bit/8, out)
	case reason != "":
		f.excepted[reason]++
	default:
		t.Errorf("%s: bit %d of byte %d: not found (status %d)", name, bit%8, bit/8, status)
	}
}

// tiny makes a shard of two files and an empty one, with a xorb of three chunks that
// are packed in three ways.
func tiny(t *testing.T, folder string, tables bool) []string {
	t.Helper()
	chunks := [][]byte{[]byte("Hello World!"), bytes.Repeat([]byte("a"), 64), bytes.Repeat([]byte{0, 17, 34, 51}, 16)}
	var body bytes.Buffer
	x := xorb.NewWriter(&body)
	list := shard.XorbInfo{}
	var hashes []codec.Hash
	for i, c := range chunks {
		h := merkle.Chunk(c)
		if err := x.Add(h, c, xorb.Scheme(i)); err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, h)
		list.Chunks = append(list.Chunks, shard.Chunk{Hash: h, Start: list.Unpacked, Size: uint32(len(c))})
		list.Unpacked += uint32(len(c))
	}
	in := x.Info()
	list.Xorb, list.Packed = in.Root(), uint32(body.Len())

	w := shard.Writer{Created: time.Unix(1_700_000_000, 0)}
	w.AddXorb(&list)
	w.AddFile(tinyFile(list.Xorb, chunks, hashes, 0, 3))
	w.AddFile(tinyFile(list.Xorb, chunks, hashes, 1, 2))
	w.AddFile(&shard.FileInfo{Verify: []codec.Hash{}, Metadata: true})
	encode := w.EncodeUpload
	if tables {
		encode = w.Encode
		body.Write(in.AppendFooter(nil))
	}
	b, err := encode()
	if err != nil {
		t.Fatal(err)
	}
	files := []string{filepath.Join(folder, "a.shard"), filepath.Join(folder, "b.xorb")}
	write(t, files[0], b)
	write(t, files[1], body.Bytes())
	return files
}

// tinyFile is the file of the chunks from ≤ i < to.
func tinyFile(x codec.Hash, chunks [][]byte, hashes []codec.Hash, from, to uint32) *shard.FileInfo {
	var leaves []merkle.Leaf
	sum := sha256.New()
	size := 0
	for i := from; i < to; i++ {
		leaves = append(leaves, merkle.Leaf{Hash: hashes[i], Size: uint64(len(chunks[i]))})
		sum.Write(chunks[i])
		size += len(chunks[i])
	}
	return &shard.FileInfo{
		File:     merkle.File(leaves),
		Terms:    []codec.Term{{Xorb: x, Chunks: codec.ChunkRange{Start: from, End: to}, Size: uint32(size)}},
		Verify:   []codec.Hash{merkle.Term(hashes[from:to])},
		SHA256:   [32]byte(sum.Sum(nil)),
		Metadata: true,
	}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// uncovered returns the reason why verify cannot find a changed byte of a file, one of the
// exceptions in its help. It returns "" if verify must find the change.
func uncovered(name string, original, flipped []byte, off int64) string {
	if shard.IsShard(original) {
		if hexDigits64.MatchString(filepath.Base(name)) {
			return ""
		}
		return uncoveredShard(original, off)
	}
	return uncoveredXorb(original, flipped, off)
}

func uncoveredXorb(original, flipped []byte, off int64) string {
	size := int64(len(original))
	check := func(b []byte) (in *xorb.Info, faults int) {
		in, err := xorb.Check(bytes.NewReader(b), size, func(error) { faults++ })
		if err != nil {
			faults++
		}
		return in, faults
	}
	in, _ := check(original)
	if in.Footer != xorb.NoFooter && off >= size-20 && off < size-4 {
		return "free bytes of a footer"
	}
	if after, faults := check(flipped); faults == 0 && after.Root() == in.Root() && inFrame(original, off) {
		return "LZ4 bits that decode to the same bytes"
	}
	return ""
}

// inFrame reports whether a byte of a xorb belongs to an LZ4 frame.
func inFrame(b []byte, off int64) bool {
	for c, err := range xorb.Chunks(bytes.NewReader(b), int64(len(b))) {
		if err != nil {
			return false
		}
		if off < c.End() {
			return off >= c.Off+xorb.ChunkHeaderSize && c.Header.Scheme != xorb.None
		}
	}
	return false
}

// uncoveredShard is uncovered for the record of a shard that contains the byte at off.
func uncoveredShard(b []byte, off int64) string {
	s, err := shard.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return ""
	}
	m := s.Meta()
	if m.Footer && off >= m.FooterOffset {
		return uncoveredFooter(m, off-m.FooterOffset)
	}
	at := m.FileInfoOffset
	for f := range s.Files() {
		n := int64(1 + len(f.Terms) + len(f.Verify))
		if f.Metadata {
			n++
		}
		if off < at+n*shardRecord {
			return uncoveredFile(f, (off-at)/shardRecord, off%shardRecord)
		}
		at += n * shardRecord
	}
	at = m.XorbInfoOffset
	for x := range s.Xorbs() {
		n := int64(1 + len(x.Chunks))
		if off >= at && off < at+n*shardRecord {
			return uncoveredList(off-at < shardRecord, off%shardRecord)
		}
		at += n * shardRecord
	}
	return ""
}

func uncoveredFooter(m shard.Meta, off int64) string {
	within := func(start, size int64) bool { return off >= start && off < start+size }
	switch {
	case within(104, 16):
		return "creation and expiry"
	case within(120, 48):
		return "reserved bytes of a footer"
	case within(24, 8) && m.FileTable.Count == 0,
		within(40, 8) && m.XorbTable.Count == 0,
		within(56, 8) && m.ChunkTable.Count == 0:
		return "offset of an empty table"
	}
	return ""
}

func uncoveredFile(f *shard.FileInfo, record, off int64) string {
	terms := int64(len(f.Terms))
	switch {
	case record == 0 && off >= 32 && off < 36:
		return "flags"
	case record == 0 && off >= 40:
		return "unused bytes of a file"
	case record >= 1 && record <= terms && off >= 32 && off < 36:
		return "flags"
	case record > terms && off >= 32:
		return "unused bytes of a verification or SHA-256 record"
	}
	return ""
}

func uncoveredList(header bool, off int64) string {
	switch {
	case header && off >= 32 && off < 36:
		return "flags"
	case !header && off >= 40:
		return "flags and unused bytes of a chunk"
	}
	return ""
}

// Whatever the report says, it says it of sound data only if it is.
func TestVerifyGoodVectors(t *testing.T) {
	vectors := os.Getenv("XETFS_VECTORS")
	if vectors == "" {
		t.Skip("XETFS_VECTORS is not set")
	}
	for _, tt := range []struct{ folders, want string }{
		{"core/shards core/xorbs", ": all sound\n"},
		{"js/shards js/xorbs js/dedup", "36 shards, 30 xorbs with 11523 chunks, 1379 files with 252307131 bytes: 2 faults\n"}, // whose xorbs are not stored
	} {
		t.Run(tt.folders, func(t *testing.T) {
			folder := t.TempDir()
			for i, from := range strings.Fields(tt.folders) {
				err := os.CopyFS(filepath.Join(folder, strconv.Itoa(i)), os.DirFS(filepath.Join(vectors, from)))
				if err != nil {
					t.Fatal(err)
				}
			}
			if out, status := verifyFolder(folder); !strings.HasSuffix(out, tt.want) {
				t.Errorf("status %d, want %q at the end of\n%s", status, tt.want, out)
			}
		})
	}
}

// Damage in one copy of a xorb is found and named although another copy is good.
func TestVerifySecondCopy(t *testing.T) {
	folder := t.TempDir()
	sample(t, folder)
	const x = "84ef753f1503ac558b742f8f2883ed9077938bf9750ea5174105961a92f22bb0.xorb"
	b, err := os.ReadFile(filepath.Join(folder, x))
	if err != nil {
		t.Fatal(err)
	}
	b[5000] ^= 4
	write(t, filepath.Join(folder, "another "+x), b)
	out, status := verifyFolder(folder)
	if first, _, _ := strings.Cut(out, "\n"); status != exitDamage || !strings.HasPrefix(first, "another "+x+": xorb "+x[:64]+": chunk 0: ") {
		t.Errorf("status %d\n%s", status, out)
	}
}

// A wrong name is damage, whatever is in the file.
func TestVerifyWrongName(t *testing.T) {
	const wrong = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, tt := range []struct{ file, to, want string }{
		{"core/v0-300-chunks.xorb", wrong + ".xorb", "xorb at byte 0: its chunks make xorb f84489e01411b6f5db37e940322d4eb8e815ab9c4dd588f7bf3219ee547bad50, its name says " + wrong},
		{"js/version-3.shard", wrong + ".shard", "shard at byte 0: its bytes have the hash "},
	} {
		t.Run(tt.file, func(t *testing.T) {
			folder := t.TempDir()
			copyTo(t, filepath.Join(demo, "store", tt.file), filepath.Join(folder, tt.to))
			out, status := verifyFolder(folder)
			if status != exitDamage || !strings.Contains(out, tt.want) {
				t.Errorf("status %d, want %q in\n%s", status, tt.want, out)
			}
		})
	}
}

// shardRecord is the size of every record in a shard, in bytes.
const shardRecord = 48

var hexDigits64 = regexp.MustCompile(`(?:^|[^0-9a-f])[0-9a-f]{64}(?:[^0-9a-f]|$)`)
