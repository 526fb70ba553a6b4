package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/fs/catalog/signature"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// An objectMap is what a store holds. Values are shared and never change.
type objectMap map[names.Key][]byte

// treeContent is the content of the files of a tree, by path. Folders are not in it.
type treeContent map[string]string

// A lieStore is a small store: its objects, and what may be read of it.
type lieStore struct {
	objects objectMap
	trees   []treeContent // versions of symbol "s", oldest first
	roots   []page.Hash
	// identities are those of roots.
	identities []page.Identity
	signers    *signature.Allowed    // of all versions
	others     []treeContent         // of symbol "t"
	content    map[codec.Hash]string // of all files, by Xet hash
	keys       map[names.Kind][]names.Key
}

// newWorld makes a store with two versions of symbol "s" and one of "t". Worlds of two seeds
// have the same paths and sizes and other bytes. Many files have one size and chunks of one
// size, so that records of one fit another.
func newWorld(t testing.TB, seed uint64) *lieStore {
	t.Helper()
	clock := time.Unix(1_700_000_000, 0).UTC()
	now := func() time.Time { clock = clock.Add(time.Second); return clock }
	random := rand.New(rand.NewChaCha8([32]byte{byte(seed)}))
	store := origintest.MemoryAt(func() time.Time { return time.Unix(1_700_000_000, 0) })
	settings := names.DefaultSettings("", time.Time{})
	settings.Page = page.Sizes{Min: 300, Max: 2048, Bits: 1, Restart: 4}
	p, err := writer.Open(t.Context(), store, origin.Pages(store), writer.Options{
		Settings: settings,
		Clock:    now,
		Random: func(b []byte) {
			for i := range b {
				b[i] = byte(random.Uint32())
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	key, signers := newSigner(t, byte(seed))
	w := &lieStore{content: map[codec.Hash]string{}, signers: signers}
	m := maker{t: t, w: w, store: store, seed: seed * 1000}
	one := m.shard(origintest.Form{}, 12, []span{{0, 0, 3}}, []span{{0, 3, 6}}, []span{{0, 0, 2}, {1, 0, 1}}, []span{{1, 1, 4}}, []span{{0, 6, 9}}, []span{{0, 8, 9}, {0, 7, 8}, {1, 5, 6}})
	two := m.shard(origintest.Form{NoFooter: true, NoVerify: true}, 8, []span{{0, 0, 3}}, []span{{0, 3, 6}}, []span{{1, 0, 1}, {0, 6, 8}}, []span{{1, 2, 5}})
	three := m.shard(origintest.Form{NoCASInfo: true, Footer: xorb.FooterV0}, 6, []span{{0, 0, 3}}, []span{{0, 3, 6}}, []span{{1, 0, 3}})
	first := m.tree(map[string]page.Entry{"a": one[0], "b": one[1], "dir/c": one[2], "dir/d": one[3], "dir/sub/e": two[0], "z": three[0]}, "old")
	second := m.tree(map[string]page.Entry{"a": one[0], "b": one[4], "dir/c": one[5], "dir/d": two[1], "dir/sub/e": two[2], "dir/sub/f": two[3], "new/g": three[1], "z": three[2]}, "new")
	other := m.tree(map[string]page.Entry{"a": one[1], "b": one[0], "dir/c": one[3], "dir/d": two[2], "dir/sub/e": two[1], "z": three[1]}, "oth")
	for _, version := range []struct {
		symbol string
		tree   map[string]page.Entry
	}{{"s", first}, {"t", other}, {"s", second}} {
		b, err := p.Begin(t.Context(), version.symbol, writer.PublishOptions{Sign: key.Sign})
		if err != nil {
			t.Fatal(err)
		}
		row, err := b.Replace(t.Context(), sortedEntries(version.tree))
		if err != nil {
			t.Fatal(err)
		}
		if version.symbol == "s" {
			w.trees, w.roots = append(w.trees, m.truth(version.tree)), append(w.roots, row.Root)
			w.identities = append(w.identities, row.Identity)
		} else {
			w.others = append(w.others, m.truth(version.tree))
		}
	}
	if _, err := p.Snapshot(t.Context(), "snap", "", map[string]names.AsOf{"s": {}}, false); err != nil {
		t.Fatal(err)
	}
	w.objects, w.keys = objectMap{}, map[names.Kind][]names.Key{}
	for item, err := range store.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		w.objects[item.Key] = origintest.Get(t, store, item.Key)
		if p, err := names.ParseKey(item.Key); err == nil {
			w.keys[p.Kind] = append(w.keys[p.Kind], item.Key)
		}
	}
	return w
}

// newSigner returns a key, and the list of allowed signers that has only this key.
func newSigner(t testing.TB, seed byte) (*signature.Key, *signature.Allowed) {
	t.Helper()
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	key, err := signature.ParseKey(pem.EncodeToMemory(block), nil)
	if err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	signers, err := signature.ParseAllowed(append([]byte("me "), ssh.MarshalAuthorizedKey(public)...))
	if err != nil {
		t.Fatal(err)
	}
	return key, signers
}

// A maker makes the shards and trees of a world.
type maker struct {
	t     testing.TB
	w     *lieStore
	store origin.WriteStore
	seed  uint64
}

// A span is chunks start ≤ i < end of one of the two xorbs of a shard.
type span struct{ xorb, start, end int }

const lieChunk = 3000 // bytes of each chunk

// shard stores two xorbs of n chunks each, and a shard of the files that spans make of them.
func (m *maker) shard(form origintest.Form, n int, files ...[]span) []page.Entry {
	m.t.Helper()
	form.Schemes = []xorb.Scheme{xorb.LZ4, xorb.None}
	b := origintest.NewBuilder(m.t, form)
	var xorbs [2]*origintest.Xorb
	for i := range xorbs {
		var chunks [][]byte
		for range n {
			m.seed++
			chunks = append(chunks, origintest.Text(m.seed, lieChunk))
		}
		xorbs[i] = b.Xorb(chunks...)
	}
	for _, spans := range files {
		var terms []origintest.Term
		for _, s := range spans {
			terms = append(terms, xorbs[s.xorb].Term(s.start, s.end))
		}
		b.File(terms...)
	}
	hash := b.Put(m.store)
	r, err := shard.NewReader(bytes.NewReader(b.Shard()), int64(len(b.Shard())))
	if err != nil {
		m.t.Fatal(err)
	}
	var entries []page.Entry
	for i, f := range b.Files {
		fi, err := r.FileInfo(f.Info.File)
		if err != nil {
			m.t.Fatal(err)
		}
		content := f.Bytes()
		m.w.content[f.Info.File] = string(content)
		e := page.Entry{Size: int64(len(content)), ID: codec.FileID{File: f.Info.File, Shard: hash, Block: fi.Block}}
		if i%2 == 0 {
			sum := sha256.Sum256(content)
			e.SHA256 = &sum
		}
		entries = append(entries, e)
	}
	return entries
}

// tree adds folders, tiny files and a link to files.
func (m *maker) tree(files map[string]page.Entry, text string) map[string]page.Entry {
	files = maps.Clone(files)
	for i := range 12 {
		files[fmt.Sprintf("tiny/%02d", i)] = page.Entry{Size: 30, Inline: fmt.Appendf(nil, "%-30s", fmt.Sprintf("%s %d %d", text, m.seed, i))}
	}
	files["link"] = page.Entry{Type: page.Symlink, Target: "a"}
	for path := range maps.Clone(files) {
		for i, c := range path {
			if c == '/' {
				files[path[:i]] = page.Entry{Type: page.Dir}
			}
		}
	}
	files[""] = page.Entry{Type: page.Dir}
	for path, e := range files {
		e.Path, e.ModTime, e.Mode = path, time.Unix(1_600_000_000, 0).UTC(), 0o644
		if e.Type == page.Dir {
			e.Mode = 0o755
		}
		if e.Type == page.Symlink {
			e.Mode = 0o777
		}
		files[path] = e
	}
	return files
}

func (m *maker) truth(files map[string]page.Entry) treeContent {
	t := treeContent{}
	for path, e := range files {
		switch {
		case e.Type != page.File:
		case e.Inline != nil:
			t[path] = string(e.Inline)
		default:
			t[path] = m.w.content[e.ID.File]
		}
	}
	return t
}

func sortedEntries(files map[string]page.Entry) iter.Seq2[page.Entry, error] {
	paths := slices.SortedFunc(maps.Keys(files), page.ComparePaths)
	return func(yield func(page.Entry, error) bool) {
		for _, path := range paths {
			if !yield(files[path], nil) {
				return
			}
		}
	}
}

// listing returns xetfs.list of some objects.
func (o objectMap) listing() []byte {
	keys := slices.Sorted(maps.Keys(o))
	b, err := listing.Encode(listing.Prefixes(), func(yield func(listing.Object, error) bool) {
		for _, k := range keys {
			listed := slices.ContainsFunc(listing.Prefixes(), func(p string) bool { return strings.HasPrefix(string(k), p) })
			object := listing.Object{Key: k, Size: int64(len(o[k])), Modified: time.Unix(1_700_000_000, 0)}
			if listed && !yield(object, nil) {
				return
			}
		}
	})
	if err != nil {
		panic(err)
	}
	return b
}
