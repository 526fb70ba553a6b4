package upload_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/chunker"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// leases is a Guard that only looks, and records its keys.
type leases struct {
	store origin.Store
	mu    sync.Mutex
	keys  map[names.Key]bool // guarded by mu
}

func (l *leases) Protect(ctx context.Context, keys ...names.Key) (missing []names.Key, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		l.keys[k] = true
		if _, err := l.store.Size(ctx, k); errors.Is(err, origin.ErrNotFound) {
			missing = append(missing, k)
		} else if err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// A fixture is an upload Store over a store in memory.
type fixture struct {
	*upload.Store
	t      testing.TB
	store  origin.WriteStore
	leases *leases
}

var testKey = [32]byte{1, 2, 3}

func newFixture(t testing.TB, o upload.Options) *fixture {
	t.Helper()
	return openFixture(t, origintest.Memory(), o)
}

func openFixture(t testing.TB, s origin.WriteStore, o upload.Options) *fixture {
	t.Helper()
	b := &fixture{t: t, store: s, leases: &leases{store: s, keys: map[names.Key]bool{}}}
	if o.Source == nil {
		o.Source = objects.New(s, objects.Options{}).(upload.Source)
	}
	o.Leases, o.Key = b.leases, testKey
	var err error
	if b.Store, err = upload.Open(t.Context(), s, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// random returns reproducible bytes that do not compress.
func random(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// A clientUpload is what a client sends for some files: one xorb and a shard.
type clientUpload struct {
	in    *xorb.Info
	body  []byte // of the xorb
	list  *shard.XorbInfo
	files []*shard.FileInfo
}

// pack chunks files into one xorb.
func pack(t testing.TB, contents ...[]byte) *clientUpload {
	t.Helper()
	var body bytes.Buffer
	w := xorb.NewWriter(&body)
	p := &clientUpload{list: &shard.XorbInfo{}}
	for _, c := range contents {
		f := &shard.FileInfo{SHA256: sha256.Sum256(c), Metadata: true}
		var leaves []merkle.Leaf
		var hashes []codec.Hash
		first := uint32(len(p.list.Chunks))
		for rest := c; len(rest) > 0; {
			n := chunker.Cut(rest)
			h := merkle.Chunk(rest[:n])
			if err := w.Add(h, rest[:n], xorb.LZ4); err != nil {
				t.Fatal(err)
			}
			leaves, hashes = append(leaves, merkle.Leaf{Hash: h, Size: uint64(n)}), append(hashes, h)
			p.list.Chunks = append(p.list.Chunks, shard.Chunk{Hash: h, Start: p.list.Unpacked, Size: uint32(n)})
			p.list.Unpacked += uint32(n)
			rest = rest[n:]
		}
		f.File = merkle.File(leaves)
		if len(c) > 0 {
			f.Terms = []codec.Term{{Chunks: codec.ChunkRange{Start: first, End: uint32(len(p.list.Chunks))}, Size: uint32(len(c))}}
			f.Verify = []codec.Hash{merkle.Term(hashes)}
		}
		p.files = append(p.files, f)
	}
	if len(p.list.Chunks) > 0 {
		p.in, p.body = w.Info(), body.Bytes()
		p.list.Xorb, p.list.Packed = p.in.Xorb, uint32(len(p.body))
		for _, f := range p.files {
			for i := range f.Terms {
				f.Terms[i].Xorb = p.in.Xorb
			}
		}
	}
	return p
}

// shard returns the shard of an upload in the form of a client.
func (p *clientUpload) shard(t testing.TB) []byte {
	t.Helper()
	var w shard.Writer
	if p.in != nil {
		w.AddXorb(p.list)
	}
	for _, f := range p.files {
		w.AddFile(f)
	}
	b, err := w.EncodeUpload()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *fixture) putXorb(p *clientUpload) bool {
	b.t.Helper()
	inserted, err := b.PutXorb(b.t.Context(), p.in.Xorb, bytes.NewReader(p.body), int64(len(p.body)))
	if err != nil {
		b.t.Fatal(err)
	}
	return inserted
}

func (b *fixture) putShard(sess upload.SessionID, body []byte) ([]upload.Content, error) {
	return b.PutShard(b.t.Context(), sess, bytes.NewReader(body), int64(len(body)), nil)
}

func (b *fixture) put(sess upload.SessionID, p *clientUpload) []upload.Content {
	b.t.Helper()
	if p.in != nil {
		b.putXorb(p)
	}
	files, err := b.putShard(sess, p.shard(b.t))
	if err != nil {
		b.t.Fatal(err)
	}
	return files
}

// read returns the content of a stored file, through its shard.
func (b *fixture) read(c upload.Content) []byte {
	b.t.Helper()
	if c.ID.File.IsZero() {
		return nil
	}
	src := objects.New(b.store, objects.Options{})
	fi, err := src.FileInfo(b.t.Context(), c.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	var out []byte
	for _, term := range fi.Terms {
		run, err := src.Chunks(b.t.Context(), term.Xorb, term.Chunks, origin.ReadOptions{})
		if err != nil {
			b.t.Fatal(err)
		}
		for i := term.Chunks.Start; i < term.Chunks.End; i++ {
			part := make([]byte, run.Size(i))
			if _, err := run.Unpack(i, part); err != nil {
				b.t.Fatal(err)
			}
			out = append(out, part...)
		}
	}
	return out
}

// objectsOf returns the number of xorbs and shards in a store.
func objectsOf(t testing.TB, s origin.Store) (xorbs, shards int) {
	t.Helper()
	for item, err := range s.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		switch p, _ := names.ParseKey(item.Key); p.Kind {
		case names.XorbKind:
			xorbs++
		case names.ShardKind:
			shards++
		}
	}
	return xorbs, shards
}

// TestUpload uploads files as a client does, and reads them.
func TestUpload(t *testing.T) {
	contents := [][]byte{random(1, 700_000), {}, bytes.Repeat([]byte("constant"), 60_000), []byte("x")}
	b := newFixture(t, upload.Options{})
	p := pack(t, contents...)
	if !b.putXorb(p) {
		t.Error("the first upload was not inserted")
	}
	if b.putXorb(p) {
		t.Error("the second upload was inserted")
	}
	files, err := b.putShard("me", p.shard(t))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range contents {
		at := slices.IndexFunc(files, func(f upload.Content) bool { return f.SHA256 == sha256.Sum256(c) })
		if at < 0 {
			t.Fatalf("file %d is not in the result", i)
		}
		if got := b.read(files[at]); !bytes.Equal(got, c) || files[at].Size != int64(len(c)) {
			t.Errorf("file %d has %d bytes, want %d", i, len(got), len(c))
		}
		found, err := b.FileBySHA256(t.Context(), "me", sha256.Sum256(c))
		if err != nil || found != files[at] {
			t.Errorf("found %v, %v", found, err)
		}
		if _, err := b.FileBySHA256(t.Context(), "other", sha256.Sum256(c)); !errors.Is(err, origin.ErrNotFound) {
			t.Errorf("another session: %v", err)
		}
	}
	if err := b.Commit(t.Context(), files, b.leases); err != nil {
		t.Error(err)
	}
	if xorbs, shards := objectsOf(t, b.store); xorbs != 1 || shards != 1 {
		t.Errorf("%d xorbs, %d shards", xorbs, shards)
	}
}

// damage flips a bit of a stored xorb.
func damage(t testing.TB, b *fixture, p *clientUpload) {
	t.Helper()
	k := names.XorbKey(p.in.Xorb)
	value := origintest.Get(t, b.store, k)
	value[1000] ^= 1
	if err := origintest.Replace(b.store, k, value); err != nil {
		t.Fatal(err)
	}
}

// TestReplaceDamaged replaces a damaged xorb by the upload of a client.
func TestReplaceDamaged(t *testing.T) {
	b := newFixture(t, upload.Options{})
	p := pack(t, random(1, 300_000))
	b.putXorb(p)
	damage(t, b, p)
	if !b.putXorb(p) {
		t.Error("the damaged xorb was not replaced")
	}
	if files := b.put("me", p); !bytes.Equal(b.read(files[0]), random(1, 300_000)) {
		t.Error("the content differs")
	}
}

// TestDedup locates chunks by a keyed answer.
func TestDedup(t *testing.T) {
	b := newFixture(t, upload.Options{})
	p := pack(t, random(1, 900_000))
	chunk := p.in.Chunks[3]
	if _, err := b.Dedup(t.Context(), chunk); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("before: %v", err)
	}
	b.put("me", p)
	body, err := b.Dedup(t.Context(), chunk)
	if err != nil {
		t.Fatal(err)
	}
	r, err := shard.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	in, err := r.XorbInfo(p.in.Xorb)
	if err != nil || len(in.Chunks) != p.in.Len() {
		t.Fatalf("%v, %v", in, err)
	}
	for i, c := range in.Chunks {
		if c.Hash != merkle.Keyed(p.in.Chunks[i], testKey) {
			t.Fatalf("chunk %d is not keyed", i)
		}
	}
	if !r.Meta().Keyed || r.Meta().Expires == 0 || !b.leases.keys[names.XorbKey(p.in.Xorb)] {
		t.Errorf("meta %+v", r.Meta())
	}
	if err := b.store.Delete(t.Context(), names.XorbKey(p.in.Xorb)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Dedup(t.Context(), chunk); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("after the xorb was deleted: %v", err)
	}
}

// TestLeaseError names the files whose data was deleted before the commit.
func TestLeaseError(t *testing.T) {
	b := newFixture(t, upload.Options{})
	good, bad := b.put("me", pack(t, random(1, 200_000))), b.put("me", pack(t, random(2, 200_000), random(3, 100)))
	if err := b.store.Delete(t.Context(), names.XorbKey(pack(t, random(2, 200_000), random(3, 100)).in.Xorb)); err != nil {
		t.Fatal(err)
	}
	var lost *upload.LeaseError
	err := b.Commit(t.Context(), slices.Concat(good, bad), b.leases)
	if !errors.As(err, &lost) || !slices.Equal(lost.Files, bad) {
		t.Errorf("%v, want %v", err, bad)
	}
	fresh := openFixture(t, b.store, upload.Options{}) // reads the shards again
	if err := fresh.Commit(t.Context(), slices.Concat(good, bad), fresh.leases); !errors.As(err, &lost) || !slices.Equal(lost.Files, bad) {
		t.Errorf("%v, want %v", err, bad)
	}
}

// A file that a client uploads again, after a sweep has deleted its first shard, can be committed. So
// can it on another server, which recalls the older shard, too.
func TestCommitAfterSecondUpload(t *testing.T) {
	b := newFixture(t, upload.Options{})
	content := random(1, 200_000)
	old := b.put("me", pack(t, content, random(2, 200_000)))
	b.put("me", pack(t, content))
	second := openFixture(t, b.store, upload.Options{})
	recall(t, second, "me")
	if err := b.store.Delete(t.Context(), names.ShardKey(old[0].ID.Shard)); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*fixture{"the same server": b, "another server": second} {
		c, err := b.FileBySHA256(t.Context(), "me", sha256.Sum256(content))
		if err == nil {
			err = b.Commit(t.Context(), []upload.Content{c}, b.leases)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A commit refuses a damaged shard: the shard of another upload would protect other xorbs.
func TestCommitOfDamagedShard(t *testing.T) {
	b := newFixture(t, upload.Options{})
	bad, other := b.put("me", pack(t, random(1, 200_000))), b.put("me", pack(t, random(2, 200_000)))
	key := names.ShardKey(bad[0].ID.Shard)
	value, _, err := b.store.Get(t.Context(), names.ShardKey(other[0].ID.Shard), "")
	if err == nil {
		err = origintest.Replace(b.store, key, value)
	}
	if err != nil {
		t.Fatal(err)
	}
	fresh := openFixture(t, b.store, upload.Options{}) // reads the shards again
	if err := fresh.Commit(t.Context(), bad, fresh.leases); !errors.Is(err, codec.ErrCorrupt) || !strings.Contains(err.Error(), string(key)) {
		t.Errorf("%v, want %v of %s", err, codec.ErrCorrupt, key)
	}
}

// TestPutContents packs files on the server.
func TestPutContents(t *testing.T) {
	b := newFixture(t, upload.Options{})
	contents := [][]byte{random(1, 300_000), {}, []byte("small"), random(1, 300_000)}
	files, err := b.PutContents(t.Context(), "me", bytes.NewReader(contents[0]), bytes.NewReader(contents[1]),
		bytes.NewReader(contents[2]), bytes.NewReader(contents[3]))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range contents {
		if got := b.read(files[i]); !bytes.Equal(got, c) || files[i].SHA256 != sha256.Sum256(c) {
			t.Errorf("file %d differs", i)
		}
	}
	one, err := b.PutContent(t.Context(), "me", bytes.NewReader(contents[0]), -1, 1<<20)
	if err != nil || one.ID.File != files[0].ID.File {
		t.Errorf("%v, %v", one, err)
	}
	if _, err := b.PutContent(t.Context(), "me", bytes.NewReader(contents[0]), -1, 1000); !errors.Is(err, upload.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	small := newFixture(t, upload.Options{Scratch: 1000})
	for _, length := range []int64{-1, 1001} { // would never fit, so a client should not try again
		if _, err := small.PutContent(t.Context(), "me", bytes.NewReader(contents[0]), length, small.MaxContent()+1); !errors.Is(err, upload.ErrTooLarge) {
			t.Errorf("beyond the scratch space: %v", err)
		}
	}
	if xorbs, _ := objectsOf(t, b.store); xorbs != 1 {
		t.Errorf("%d xorbs", xorbs)
	}
}

// TestConcurrent sends many uploads at once, beside queries.
func TestConcurrent(t *testing.T) {
	b := newFixture(t, upload.Options{})
	common := random(100, 150_000)
	var all sync.WaitGroup
	for i := range uint64(8) {
		all.Go(func() {
			mine := random(i, 100_000)
			p := pack(t, common, mine)
			sess := upload.SessionID(rune('a' + i))
			if _, err := b.PutXorb(t.Context(), p.in.Xorb, bytes.NewReader(p.body), -1); err != nil {
				t.Error(err)
				return
			}
			body := p.shard(t)
			files, err := b.PutShard(t.Context(), sess, bytes.NewReader(body), -1, func(string, int64, int64) {})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := b.Dedup(t.Context(), p.in.Chunks[0]); err != nil {
				t.Error(err)
			}
			if _, err := b.PutContents(t.Context(), sess, bytes.NewReader(mine)); err != nil {
				t.Error(err)
			}
			if err := b.Commit(t.Context(), files, b.leases); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestRefresh finds the chunks of other writers, and no chunks that a sweep has deleted.
func TestRefresh(t *testing.T) {
	b := newFixture(t, upload.Options{})
	other := openFixture(t, b.store, upload.Options{})
	p := pack(t, random(1, 300_000))
	files := other.put("me", p)
	find := func(want error) {
		t.Helper()
		if err := b.RefreshIndex(); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Dedup(t.Context(), p.in.Chunks[1]); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	find(nil)
	for _, k := range []names.Key{names.ShardKey(files[0].ID.Shard), names.XorbKey(p.in.Xorb)} {
		if err := b.store.Delete(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	find(origin.ErrNotFound)
	other.put("me", p)
	find(nil)
}

var largeFile = flag.Int64("large-file", 256<<20, "bytes of the file of TestLargeFile")

// A shard of a large file, whose terms all name one xorb, is checked beside reports of progress. The
// SHA-256 is that of all bytes.
func TestLargeFile(t *testing.T) {
	b := newFixture(t, upload.Options{})
	content := random(9, 60<<20)
	p := pack(t, content)
	one := *p.files[0]
	large := &shard.FileInfo{}
	var leaves []merkle.Leaf
	sum := sha256.New()
	for large.Size() < *largeFile {
		large.Terms, large.Verify = append(large.Terms, one.Terms...), append(large.Verify, one.Verify...)
		for _, c := range p.list.Chunks {
			leaves = append(leaves, merkle.Leaf{Hash: c.Hash, Size: uint64(c.Size)})
		}
		sum.Write(content)
	}
	large.File = merkle.File(leaves)
	p.files = []*shard.FileInfo{large}
	b.putXorb(p)
	begin := time.Now()
	last, longest, reports := begin, time.Duration(0), 0
	files, err := b.PutShard(t.Context(), "me", bytes.NewReader(p.shard(t)), -1, func(_ string, done, total int64) {
		longest, last = max(longest, time.Since(last)), time.Now()
		if reports++; done > total {
			t.Errorf("%d of %d bytes", done, total)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	longest = max(longest, time.Since(last))
	t.Logf("%d bytes in %v, %d reports, at most %v apart", large.Size(), time.Since(begin), reports, longest)
	if len(files) != 1 || files[0].SHA256 != [32]byte(sum.Sum(nil)) || files[0].Size != large.Size() || reports == 0 {
		t.Errorf("%+v after %d reports", files, reports)
	}
}
