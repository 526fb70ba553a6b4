package objects_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// twoFiles is a shard of two files of one size, and what a catalog calls them.
func twoFiles(t *testing.T, form origintest.Form) (b *origintest.Builder, ids []codec.FileID) {
	t.Helper()
	b = origintest.NewBuilder(t, form)
	x := b.Xorb(origintest.Text(1, 2000), origintest.Text(2, 2000))
	b.File(x.Term(0, 1))
	b.File(x.Term(1, 2))
	ids = b.IDs()
	return b, ids
}

// exchanged returns the shard with the terms of its two files exchanged, and with their
// verification hashes.
func exchanged(b *origintest.Builder, ids []codec.FileID) []byte {
	good := b.Shard()
	lie := bytes.Clone(good)
	n := 48
	if b.Files[0].Info.Verify != nil {
		n *= 2
	}
	first, second := ids[0].Block+48, ids[1].Block+48
	copy(lie[first:], good[second:second+int64(n)])
	copy(lie[second:], good[first:first+int64(n)])
	return lie
}

// A store exchanges the terms of two files. No reader gets the bytes of one file in the name of
// the other, and no wrong block is cached.
func TestF58_ExchangedTerms(t *testing.T) {
	for name, form := range map[string]origintest.Form{
		"footers":            {},
		"chunks in shard":    {NoFooter: true},
		"hashes nowhere":     {NoFooter: true, NoCASInfo: true},
		"no verify hashes":   {NoVerify: true},
		"as it was uploaded": {NoFooter: true, Upload: true},
	} {
		b, ids := twoFiles(t, form)
		for place, s := range stores(b) {
			for _, isNamed := range []bool{false, true} {
				t.Run(name+" "+place+map[bool]string{true: " named"}[isNamed], func(t *testing.T) {
					backend := new(origintest.Backend)
					open := func() origin.Source {
						return objects.New(s, objects.Options{Backend: backend, Named: isNamed})
					}
					replace(t, s, names.ShardKey(ids[0].Shard), exchanged(b, ids))
					src := open()
					for range 2 {
						for _, id := range ids {
							if fi, err := src.FileInfo(t.Context(), id); !errors.Is(err, codec.ErrCorrupt) {
								t.Errorf("FileInfo = %v, %v, want %v", fi, err, codec.ErrCorrupt)
							}
						}
						replace(t, s, names.ShardKey(ids[0].Shard), exchanged(b, ids))
						src = open()
					}
					replace(t, s, names.ShardKey(ids[0].Shard), b.Shard())
					src = open()
					for i, f := range b.Files {
						id := ids[slices.IndexFunc(ids, func(id codec.FileID) bool { return id.File == f.Info.File })]
						fi, err := src.FileInfo(t.Context(), id)
						if err != nil || !slices.Equal(fi.Terms, f.Info.Terms) {
							t.Errorf("the honest store: FileInfo of file %d = %v, %v", i, fi, err)
						}
					}
				})
			}
		}
	}
}

// A shard that was proven once is compared with its block hashes from then on. A later exchange
// is noticed, even in a long shard that does not stay in memory.
func TestF58_ExchangedLater(t *testing.T) {
	b, ids := smallFiles(t, 500)
	b2 := origintest.NewBuilder(t, origintest.Form{})
	other := b2.Add([]byte("other"), 10)
	s := b.Store()
	otherID := codec.FileID{File: other.Info.File, Shard: b2.Put(s)}
	src := objects.New(s, objects.Options{InfoBytes: 1, Named: true})
	get := func(id codec.FileID) (*shard.FileInfo, error) { return src.FileInfo(t.Context(), id) }
	if _, err := get(ids[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := get(otherID); err != nil { // its bytes take the room
		t.Fatal(err)
	}
	lie := bytes.Clone(b.Shard())
	copy(lie[ids[7].Block+48:][:96], b.Shard()[ids[8].Block+48:])
	replace(t, s, names.ShardKey(ids[0].Shard), lie)
	if fi, err := get(ids[7]); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("FileInfo = %v, %v, want %v", fi, err, codec.ErrCorrupt)
	}
	if _, err := get(ids[9]); err != nil {
		t.Errorf("a file that was not exchanged, which its chunks prove: %v", err)
	}
}

// A page proves the shard that it names, and no other one.
func TestF58_ShardThatNoPageNames(t *testing.T) {
	b, x, _ := threeChunks(t, origintest.Form{})
	f := b.File(x.Term(0, 1), x.Term(1, 2))
	f.Info.Terms[1].Xorb[0] ^= 1 // nothing proves it but the shard
	for place, s := range stores(b) {
		id := codec.FileID{File: f.Info.File, Shard: merkle.Chunk(b.Shard())}
		if _, err := named(s).FileInfo(t.Context(), id); err != nil {
			t.Errorf("%s, the named shard: %v", place, err)
		}
		id.Shard[0] ^= 1
		if fi, err := named(s).FileInfo(t.Context(), id); err == nil {
			t.Errorf("%s, another shard: %v", place, fi)
		}
	}
}

// A remote shard is read whole once, in one request, for any number of files.
func TestShardIsReadOnce(t *testing.T) {
	b, ids := smallFiles(t, 500)
	s := &partStore{Watched: origintest.Watch(b.Store())}
	src := objects.New(s, objects.Options{Named: true})
	for _, id := range ids {
		if _, err := src.FileInfo(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if requests, _ := s.requested(); requests != 1 {
		t.Errorf("%d requests", requests)
	}
}

// The check of a large file ends with the context of its only caller.
func TestProofIsInterrupted(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true, NoVerify: true})
	x := b.Xorb(origintest.Text(1, 1000))
	f := b.File(slices.Repeat([]origintest.Term{x.All()}, 20_000)...)
	ctx, cancel := context.WithCancel(t.Context())
	s := origintest.Watch(b.LocalStore())
	s.Before = func(_ context.Context, c origintest.Call) error {
		if c.Key == x.Key() {
			cancel()
		}
		return nil
	}
	if _, err := objects.New(s, objects.Options{}).FileInfo(ctx, f.ID()); !errors.Is(err, context.Canceled) {
		t.Errorf("FileInfo = %v, want %v", err, context.Canceled)
	}
}
