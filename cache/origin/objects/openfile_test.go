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
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// manyTerms is a shard of a file of very many terms, and of a small one.
func manyTerms(t *testing.T, form origintest.Form, n int) (b *origintest.Builder, large, little *origintest.File, ids map[codec.Hash]codec.FileID) {
	t.Helper()
	b = origintest.NewBuilder(t, form)
	var chunks [][]byte
	for i := range 50 {
		chunks = append(chunks, origintest.Text(uint64(i), 100))
	}
	x := b.Xorb(chunks...)
	terms := make([]origintest.Term, n)
	for i := range terms {
		terms[i] = x.Term(i*7%50, i*7%50+1)
	}
	large, little = b.File(terms...), b.File(x.All())
	ids = map[codec.Hash]codec.FileID{}
	for _, id := range b.IDs() {
		ids[id.File] = id
	}
	return b, large, little, ids
}

// L18: a file of many terms is read in groups, which are proven. Another shard's bytes in
// the place of them are an error, when the file is opened and later.
func TestL18_OpenFile(t *testing.T) {
	const n = origin.MaxTerms + 2*shard.TermGroup + 77
	for name, form := range map[string]origintest.Form{"footers": {}, "chunks in shard": {NoFooter: true}, "no verify hashes": {NoVerify: true}} {
		b, f, little, ids := manyTerms(t, form, n)
		id := ids[f.Info.File]
		good := b.Shard()
		lie := bytes.Clone(good)
		at := id.Block + 48*(1+3*shard.TermGroup) // two terms of one size change their places
		copy(lie[at:], good[at+48:at+96])
		copy(lie[at+48:], good[at:at+48])
		for place, s := range stores(b) {
			for _, named := range []bool{false, true} {
				t.Run(name+" "+place+map[bool]string{true: " named"}[named], func(t *testing.T) {
					open := func() origin.Source {
						return objects.New(s, objects.Options{Named: named})
					}
					put := func(b []byte) { replace(t, s, names.ShardKey(id.Shard), b) }
					src := open()
					if fi, large, err := src.OpenFile(t.Context(), ids[little.Info.File]); err != nil || large != nil || !slices.Equal(fi.Terms, little.Info.Terms) {
						t.Errorf("a file of one term: %v, %v, %v", fi, large, err)
					}
					fi, large, err := src.OpenFile(t.Context(), id)
					if err != nil || fi != nil || large.Index.Size() != f.Info.Size() || large.Index.SHA256 != f.Info.SHA256 {
						t.Fatalf("OpenFile = %v, %v, %v", fi, large, err)
					}
					if !slices.Equal(termsOf(t, large), f.Info.Terms) {
						t.Error("the groups are not the terms of the file")
					}
					put(lie)
					for i := range large.Index.Groups() {
						terms, err := large.Group(t.Context(), i) // a remote shard is still in memory
						good := err == nil && slices.Equal(terms, f.Info.Terms[i*shard.TermGroup:min(n, (i+1)*shard.TermGroup)])
						if !good && !(i == 3 && errors.Is(err, codec.ErrCorrupt)) {
							t.Errorf("group %d of a shard that was exchanged: %d terms, %v", i, len(terms), err)
						}
					}
					if _, large, err := open().OpenFile(t.Context(), id); !errors.Is(err, codec.ErrCorrupt) {
						t.Errorf("OpenFile of a shard that was exchanged = %v, %v, want %v", large, err, codec.ErrCorrupt)
					}
					put(good)
					if !slices.Equal(termsOf(t, large), f.Info.Terms) {
						t.Error("when the cause is gone, the groups are not the terms of the file")
					}
				})
			}
		}
	}
}

func termsOf(t *testing.T, large *origin.LargeFile) (all []codec.Term) {
	t.Helper()
	for i := range large.Index.Groups() {
		terms, err := large.Group(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, terms...)
	}
	return all
}

// The groups that were read of a large file are cached. They are found again without the
// store, and a damaged group is read from the store.
func TestL18_CachedTerms(t *testing.T) {
	const n = origin.MaxTerms + 3*shard.TermGroup + 5
	b, f, _, ids := manyTerms(t, origintest.Form{}, n)
	id := ids[f.Info.File]
	for _, named := range []bool{false, true} {
		backend := new(origintest.Backend)
		open := func(s origin.Store, named bool) (*origin.LargeFile, error) {
			_, large, err := objects.New(s, objects.Options{Backend: backend, Named: named}).OpenFile(t.Context(), id)
			return large, err
		}
		if _, err := open(b.Store(), named); err != nil {
			t.Fatal(err)
		}
		large, err := open(origintest.Memory(), named)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(termsOf(t, large), f.Info.Terms) || large.Index.SHA256 != f.Info.SHA256 {
			t.Error("the cached terms are not those of the file")
		}
		if large, err := open(origintest.Memory(), !named); err == nil {
			t.Errorf("a file that was proven otherwise (named: %t) is found: %v", named, large.Index)
		}
		for _, value := range backend.Pages() {
			value[len(value)/2] ^= 1
		}
		if large, err := open(origintest.Memory(), named); err == nil {
			t.Errorf("a damaged value is used: %v", large.Index)
		}
		if large, err = open(b.Store(), named); err != nil || !slices.Equal(termsOf(t, large), f.Info.Terms) {
			t.Errorf("with corrupt cached terms: %v", err)
		}
	}
}

// O34: a shard that a remote store does not deliver is requested once per open. Each request
// may take the limit of a read.
func TestO34_OpenFileAsksOnce(t *testing.T) {
	b, f, little, ids := manyTerms(t, origintest.Form{}, origin.MaxTerms+1)
	for _, id := range []codec.FileID{ids[f.Info.File], ids[little.Info.File]} {
		s := &silentStore{Store: b.Store()}
		_, _, err := objects.New(s, objects.Options{Named: true}).OpenFile(t.Context(), id)
		if !errors.Is(err, origin.ErrUnavailable) || s.requested != 1 {
			t.Errorf("after %d questions: %v, want %v after 1", s.requested, err, origin.ErrUnavailable)
		}
	}
}

// A silentStore is a remote store that does not deliver shards.
type silentStore struct {
	origin.Store
	requested int
}

func (s *silentStore) ReadWhole(context.Context, names.Key, int64, func([]byte, int64) error) error {
	s.requested++
	return origin.ErrUnavailable
}
