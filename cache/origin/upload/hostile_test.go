package upload_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// bodyOf returns a xorb of n chunks with the same content, and its hash.
func bodyOf(t testing.TB, n, size int, scheme xorb.Scheme) ([]byte, codec.Hash) {
	t.Helper()
	var p xorb.Packer
	chunk := make([]byte, size)
	packed := p.Append(nil, chunk, scheme)
	leaves := make([]merkle.Leaf, n)
	for i := range leaves {
		leaves[i] = merkle.Leaf{Hash: merkle.Chunk(chunk), Size: uint64(size)}
	}
	return bytes.Repeat(packed, n), merkle.Xorb(leaves)
}

// endless is a body without an end.
type endless struct {
	chunk []byte
	read  int
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], e.chunk[(e.read+n)%len(e.chunk):])
	}
	e.read += n
	return n, nil
}

// TestHostileXorbs sends bad xorbs. Each is refused, and the store stays empty.
func TestHostileXorbs(t *testing.T) {
	good := pack(t, random(1, 300_000), []byte("second file"))
	edit := func(change func(b []byte) []byte) []byte { return change(bytes.Clone(good.body)) }
	bomb, bombHash := bodyOf(t, 600, codec.MaxChunkSize, xorb.LZ4)
	many, manyHash := bodyOf(t, codec.MaxXorbChunks+1, 1, xorb.None)
	large, largeHash := bodyOf(t, 513, codec.MaxChunkSize, xorb.None)
	other := pack(t, random(2, 1000))
	tests := []struct {
		name string
		body []byte
		hash codec.Hash
		want error
		text string
	}{
		{"another hash", good.body, other.in.Xorb, upload.ErrRefused, "another hash than its path"},
		{"zero hash", good.body, codec.Hash{}, upload.ErrRefused, "another hash than its path"},
		{"longer chunk", edit(func(b []byte) []byte { b[5]++; return b }), good.in.Xorb, upload.ErrRefused, "chunk 0"},
		{"shorter chunk", edit(func(b []byte) []byte { b[5]--; return b }), good.in.Xorb, upload.ErrRefused, "chunk 0"},
		{"bomb", bomb, bombHash, upload.ErrRefused, "more than 67108864 unpacked bytes"},
		{"too many chunks", many, manyHash, upload.ErrRefused, "more than 8192 chunks"},
		{"above 64 MiB", large, largeHash, upload.ErrRefused, "have more than"},
		{"cut in a header", good.body[:4], good.in.Xorb, upload.ErrRefused, "chunk header"},
		{"cut in a chunk", good.body[:len(good.body)-5], good.in.Xorb, upload.ErrRefused, ""},
		{"without the last chunk", good.body[:good.in.PackedEnd[good.in.Len()-2]], good.in.Xorb, upload.ErrRefused, "another hash than its path"},
		{"bytes behind the chunks", append(bytes.Clone(good.body), 1, 2, 3), good.in.Xorb, upload.ErrRefused, ""},
		{"footer of another xorb", other.in.AppendFooter(bytes.Clone(good.body)), good.in.Xorb, upload.ErrRefused, ""},
		{"flipped bit", edit(func(b []byte) []byte { b[5000] ^= 1; return b }), good.in.Xorb, upload.ErrRefused, ""},
		{"unknown scheme", edit(func(b []byte) []byte { b[4] = 7; return b }), good.in.Xorb, upload.ErrRefused, "scheme 7"},
		{"unknown version", edit(func(b []byte) []byte { b[0] = 1; return b }), good.in.Xorb, upload.ErrRefused, "version 1"},
		{"empty", nil, codec.Hash{}, upload.ErrRefused, ""},
		{"text", []byte("GET / HTTP/1.1\r\n\r\n"), good.in.Xorb, upload.ErrRefused, ""},
	}
	b := newFixture(t, upload.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inserted, err := b.PutXorb(t.Context(), tt.hash, bytes.NewReader(tt.body), int64(len(tt.body)))
			if inserted || !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v, %v, want %v with %q", inserted, err, tt.want, tt.text)
			}
		})
	}
	if xorbs, shards := objectsOf(t, b.store); xorbs+shards > 0 {
		t.Errorf("the store has %d xorbs and %d shards", xorbs, shards)
	}
	b.putXorb(good) // the scratch space is free again
}

// TestBodies sends bodies that are longer or shorter than declared, or endless.
func TestBodies(t *testing.T) {
	good := pack(t, random(1, 100_000))
	b := newFixture(t, upload.Options{Scratch: 70 << 20})
	e := &endless{chunk: good.body}
	if _, err := b.PutXorb(t.Context(), good.in.Xorb, e, -1); !errors.Is(err, upload.ErrTooLarge) || e.read > 69<<20 {
		t.Errorf("endless: %v after %d bytes", err, e.read)
	}
	if _, err := b.PutXorb(t.Context(), good.in.Xorb, new(endless), 1<<40); !errors.Is(err, upload.ErrTooLarge) {
		t.Errorf("declared as too long: %v", err)
	}
	if _, err := b.PutXorb(t.Context(), good.in.Xorb, bytes.NewReader(good.body), int64(len(good.body)+1)); !errors.Is(err, upload.ErrRefused) {
		t.Errorf("shorter than declared: %v", err)
	}
	cut := io.MultiReader(bytes.NewReader(good.body[:1000]), errReader{})
	if _, err := b.PutXorb(t.Context(), good.in.Xorb, cut, int64(len(good.body))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("lost connection: %v", err)
	}
	if _, err := b.putShard("me", make([]byte, 90<<20)); !errors.Is(err, upload.ErrTooLarge) {
		t.Errorf("large shard: %v", err)
	}
	b.putXorb(good) // the scratch space is free again
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestHostileShards sends bad shards. Each is refused, and no shard is stored.
func TestHostileShards(t *testing.T) {
	make1 := func() *clientUpload { return pack(t, random(1, 500_000), bytes.Repeat([]byte("abc"), 50_000)) }
	foreign := pack(t, random(9, 100_000))
	stored := pack(t, random(8, 200_000))
	block := func(p *clientUpload) []byte { return p.shard(t) }
	tests := []struct {
		name   string
		change func(p *clientUpload) []byte
		text   string
	}{
		{"term behind the end", func(p *clientUpload) []byte { p.files[0].Terms[0].Chunks.End += 100; return block(p) }, "chunks"},
		{"term of other chunks", func(p *clientUpload) []byte {
			p.files[0].Terms[0].Chunks.Start++
			p.files[0].Terms[0].Chunks.End++
			return block(p)
		}, "chunks"},
		{"longer term", func(p *clientUpload) []byte { p.files[0].Terms[0].Size++; return block(p) }, "do not have"},
		{"foreign xorb", func(p *clientUpload) []byte { p.files[0].Terms[0].Xorb = foreign.in.Xorb; return block(p) }, "is not stored"},
		{"list of a foreign xorb", func(p *clientUpload) []byte {
			var w shard.Writer
			w.AddXorb(foreign.list)
			b, _ := w.EncodeUpload()
			return b
		}, "is not stored"},
		{"range hash", func(p *clientUpload) []byte { p.files[0].Verify[0][3] ^= 1; return block(p) }, "another range hash"},
		{"swapped range hashes", func(p *clientUpload) []byte {
			p.files[0].Verify, p.files[1].Verify = p.files[1].Verify, p.files[0].Verify
			return block(p)
		}, "another range hash"},
		{"file hash", func(p *clientUpload) []byte { p.files[0].File[5] ^= 1; return block(p) }, "another hash"},
		{"file hash of another file", func(p *clientUpload) []byte { p.files[0].File = p.files[1].File; return block(p) }, "another hash"},
		{"SHA-256", func(p *clientUpload) []byte { p.files[1].SHA256[0] ^= 1; return block(p) }, "another SHA-256"},
		{"no range hashes", func(p *clientUpload) []byte {
			for _, f := range p.files {
				f.Verify = nil
			}
			return block(p)
		}, "no verification hashes"},
		{"zero hash with terms", func(p *clientUpload) []byte { p.files[0].File = codec.Hash{}; return block(p) }, "zero hash"},
		{"hash without terms", func(p *clientUpload) []byte {
			var w shard.Writer
			w.AddFile(&shard.FileInfo{File: p.files[0].File, Verify: []codec.Hash{}})
			b, _ := w.EncodeUpload()
			return b
		}, "only the empty file"},
		{"false chunk list", func(p *clientUpload) []byte { p.list.Chunks[1].Hash[0] ^= 1; return block(p) }, "than in the list"},
		{"list without a chunk", func(p *clientUpload) []byte {
			last := p.list.Chunks[len(p.list.Chunks)-1]
			p.list.Chunks, p.list.Unpacked = p.list.Chunks[:len(p.list.Chunks)-1], p.list.Unpacked-last.Size
			return block(p)
		}, "its list has"},
		{"list of another xorb", func(p *clientUpload) []byte { p.list.Xorb = stored.in.Xorb; return block(p) }, "its list has"},
		{"keyed", func(p *clientUpload) []byte {
			var w shard.Writer
			w.AddXorb(p.list)
			b, _ := w.EncodeKeyed(testKey, w.Created, w.Created)
			return b
		}, "keyed"},
		{"10^7 entries", func(p *clientUpload) []byte {
			b := block(p)
			binary.LittleEndian.PutUint32(b[48+36:], 10_000_000)
			return b
		}, ""},
		{"2^32-1 entries", func(p *clientUpload) []byte {
			b := block(p)
			binary.LittleEndian.PutUint32(b[48+36:], 1<<32-1)
			return b
		}, ""},
		{"sum of sizes", func(p *clientUpload) []byte {
			f := p.files[0]
			for len(f.Terms) < 40_000 {
				f.Terms, f.Verify = append(f.Terms, f.Terms[0]), append(f.Verify, f.Verify[0])
			}
			return block(p)
		}, "more than 1000000000 bytes"},
		{"without bookend", func(p *clientUpload) []byte { b := block(p); return b[:len(b)-48] }, ""},
		{"bytes behind the end", func(p *clientUpload) []byte { return append(block(p), 1) }, ""},
		{"cut", func(p *clientUpload) []byte { b := block(p); return b[:len(b)/2] }, ""},
		{"empty", func(*clientUpload) []byte { return nil }, ""},
		{"text", func(*clientUpload) []byte { return []byte(strings.Repeat("hello ", 100)) }, ""},
	}
	b := newFixture(t, upload.Options{Content: 1_000_000_000})
	b.putXorb(make1())
	b.putXorb(stored)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := make1()
			want := p.files[0].File.String()
			files, err := b.putShard("me", tt.change(p))
			if files != nil || !errors.Is(err, upload.ErrRefused) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v, %v, want %q", files, err, tt.text)
			}
			if err != nil && tt.name == "file hash" && strings.Contains(err.Error(), want) {
				t.Errorf("%v reveals the hash of the file", err)
			}
		})
	}
	if _, shards := objectsOf(t, b.store); shards > 0 {
		t.Errorf("%d shards were stored", shards)
	}
	if files, err := b.putShard("me", make1().shard(t)); err != nil || len(files) != 2 {
		t.Errorf("the good shard: %v, %v", files, err)
	}
}

// TestDamagedStore refuses a shard whose stored xorb is damaged, until a client sends it again.
func TestDamagedStore(t *testing.T) {
	b := newFixture(t, upload.Options{})
	p := pack(t, random(1, 300_000))
	b.putXorb(p)
	damage(t, b, p)
	if _, err := b.putShard("me", p.shard(t)); !errors.Is(err, upload.ErrRefused) || !strings.Contains(err.Error(), "upload the file again") {
		t.Errorf("error %v", err)
	}
	if !b.putXorb(p) {
		t.Error("the xorb was not replaced")
	}
	if _, err := b.putShard("me", p.shard(t)); err != nil {
		t.Error(err)
	}
}

// TestQuota refuses data above the quota, and accepts it when room was made.
func TestQuota(t *testing.T) {
	b := newFixture(t, upload.Options{Quota: 250_000})
	b.put("me", pack(t, random(1, 100_000)))
	large := pack(t, random(2, 200_000))
	_, err := b.PutXorb(t.Context(), large.in.Xorb, bytes.NewReader(large.body), int64(len(large.body)))
	if !errors.Is(err, upload.ErrFull) || !strings.Contains(err.Error(), "quota") {
		t.Errorf("error %v", err)
	}
	if _, err := b.PutContents(t.Context(), "me", bytes.NewReader(random(2, 200_000))); !errors.Is(err, upload.ErrFull) {
		t.Errorf("packed: %v", err)
	}
	b.put("me", pack(t, random(3, 50_000))) // a smaller body is accepted
}

// TestBusy refuses bodies above the limits of concurrent uploads and of scratch space.
func TestBusy(t *testing.T) {
	b := newFixture(t, upload.Options{Uploads: 1, Wait: time.Millisecond})
	good := pack(t, random(1, 100_000))
	r, w := io.Pipe()
	done := make(chan error)
	go func() {
		_, err := b.PutXorb(t.Context(), good.in.Xorb, r, int64(len(good.body)))
		done <- err
	}()
	if _, err := w.Write(good.body[:1]); err != nil {
		t.Fatal(err)
	}
	if _, err := b.PutXorb(t.Context(), good.in.Xorb, bytes.NewReader(good.body), int64(len(good.body))); !errors.Is(err, upload.ErrBusy) {
		t.Errorf("second upload: %v", err)
	}
	if _, err := w.Write(good.body[1:]); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	b.putXorb(good)

	small := newFixture(t, upload.Options{Scratch: 1000})
	if _, err := small.PutXorb(t.Context(), good.in.Xorb, bytes.NewReader(good.body), int64(len(good.body))); !errors.Is(err, upload.ErrBusy) {
		t.Errorf("without scratch space: %v", err)
	}
}
