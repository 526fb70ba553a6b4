package origintest

import (
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
)

func (c *contract) fileInfo(t testing.TB) {
	for _, f := range c.b.Files {
		for name, id := range map[string]codec.FileID{
			"by its hash":    f.ID(),
			"with its shard": {File: f.Info.File, Shard: merkle.Chunk(c.b.Shard())},
		} {
			for range 2 {
				fi, err := c.src.FileInfo(t.Context(), id)
				if err != nil {
					t.Errorf("FileInfo %s: %v", name, err)
				} else if fi.File != f.Info.File || !slices.Equal(fi.Terms, f.Info.Terms) {
					t.Errorf("FileInfo %s = %s, %v, want %s, %v", name, fi.File, fi.Terms, f.Info.File, f.Info.Terms)
				}
			}
		}
	}
	if fi, err := c.src.FileInfo(t.Context(), codec.FileID{}); err != nil || fi.Size() != 0 || len(fi.Terms) != 0 {
		t.Errorf("FileInfo of the empty file = %v, %v", fi, err)
	}
}

// fileInfoProven checks that a File Info block with the terms of another file is refused. A plan
// is not proven.
func (c *contract) fileInfoProven(t testing.TB) {
	if !c.src.Proves() {
		return
	}
	b := NewBuilder(t, Form{XorbChunks: 5})
	f := b.Add(Text(1, 20_000), 1000)
	f.Info.File = codec.Hash{7}
	if fi, err := c.open(b.Store()).FileInfo(t.Context(), f.ID()); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("FileInfo with the terms of another file = %v, %v, want %v", fi, err, codec.ErrCorrupt)
	}
}

func (c *contract) fileInfoAbsent(t testing.TB) {
	if fi, err := c.src.FileInfo(t.Context(), codec.FileID{File: codec.Hash{1}}); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("FileInfo of an unknown file = %v, %v, want %v", fi, err, origin.ErrNotFound)
	}
}

func (c *contract) openFile(t testing.TB) {
	for _, f := range c.b.Files {
		checkOpenFile(t, c.src, f.ID(), f)
	}
}

// openLargeFile opens a file of more than MaxTerms terms by the place of its block.
func (c *contract) openLargeFile(t testing.TB) {
	b := NewBuilder(t, Form{})
	x := b.Xorb(Text(1, 100), Text(2, 200), Text(3, 300))
	terms := make([]Term, origin.MaxTerms+shard.TermGroup+5)
	for i := range terms {
		terms[i] = x.Term(2*i%3, 2*i%3+1)
	}
	f := b.File(terms...)
	checkOpenFile(t, c.open(b.Store()), b.IDs()[0], f)
}

// checkOpenFile checks that OpenFile returns the terms of a file, at once or in groups.
func checkOpenFile(t testing.TB, src origin.Source, id codec.FileID, f *File) {
	t.Helper()
	fi, large, err := src.OpenFile(t.Context(), id)
	if err != nil || (fi == nil) == (large == nil) {
		t.Errorf("OpenFile = %v, %v, %v, want one of both", fi, large, err)
		return
	}
	var terms []codec.Term
	if fi != nil {
		terms = fi.Terms
	}
	for i := 0; large != nil && i < large.Index.Groups(); i++ {
		group, err := large.Group(t.Context(), i)
		if err != nil {
			t.Errorf("group %d: %v", i, err)
		}
		terms = append(terms, group...)
	}
	if !slices.Equal(terms, f.Info.Terms) {
		t.Errorf("OpenFile returns %d terms, not the %d of the file", len(terms), len(f.Info.Terms))
	}
}

// fileInfos checks that FileInfos yields the result of FileInfo, once for each id, and no result
// after its return.
func (c *contract) fileInfos(t testing.TB) {
	ids := []codec.FileID{{}, {File: codec.Hash{1}}, {File: codec.Hash{1}, Shard: merkle.Chunk(c.b.Shard())}}
	for _, f := range c.b.Files {
		ids = append(ids, f.ID(), codec.FileID{File: f.Info.File, Shard: merkle.Chunk(c.b.Shard())})
	}
	yields := make([]atomic.Int64, len(ids))
	c.src.FileInfos(t.Context(), ids, func(i int, fi *shard.FileInfo, err error) {
		want, wantErr := c.src.FileInfo(t.Context(), ids[i])
		if (err == nil) != (wantErr == nil) || errors.Is(err, origin.ErrNotFound) != errors.Is(wantErr, origin.ErrNotFound) {
			t.Errorf("FileInfos of %v: %v, FileInfo: %v", ids[i], err, wantErr)
		}
		if err == nil && wantErr == nil && !reflect.DeepEqual(fi, want) {
			t.Errorf("FileInfos of %v = %v, FileInfo = %v", ids[i], fi, want)
		}
		yields[i].Add(1)
	})
	for i := range ids {
		if n := yields[i].Load(); n != 1 {
			t.Errorf("FileInfos yields file %d of %d %d times", i, len(ids), n)
		}
	}
}

// fileInfosRequests compares the requests for all files with those for one file.
func (c *contract) fileInfosRequests(t testing.TB) {
	if c.src.Local() || !c.direct {
		return
	}
	ids := c.b.IDs()
	requests := func(ids []codec.FileID) int {
		src := c.open(c.store)
		return c.requests(func() {
			src.FileInfos(t.Context(), ids, func(_ int, _ *shard.FileInfo, err error) {
				if err != nil {
					t.Errorf("FileInfos: %v", err)
				}
			})
		})
	}
	sum := 0
	for i := range ids {
		sum += requests(ids[i : i+1])
	}
	if all := requests(ids); all >= sum {
		t.Errorf("%d requests for %d files together, %d for one after the other", all, len(ids), sum)
	}
}

// forget replaces the objects of a store while a Source has a result. The same files are then in
// other xorbs.
func (c *contract) forget(t testing.TB) {
	if !c.direct {
		return
	}
	content := Text(1, 20_000)
	before, after := NewBuilder(t, Form{XorbChunks: 5}), NewBuilder(t, Form{XorbChunks: 7})
	f, moved := before.Add(content, 1000), after.Add(content, 1000)
	s := before.Store()
	src := c.open(s)
	if _, err := src.FileInfo(t.Context(), f.ID()); err != nil {
		t.Fatal(err)
	}
	for k := range before.Objects() {
		if err := s.Delete(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	after.Put(s)
	src.Forget(f.ID())
	src.Forget(codec.FileID{File: codec.Hash{1}})
	fi, err := src.FileInfo(t.Context(), f.ID())
	if err != nil || !slices.Equal(fi.Terms, moved.Info.Terms) {
		t.Errorf("FileInfo after Forget = %v, %v, want the terms %v", fi, err, moved.Info.Terms)
	}
}

func (c *contract) local(t testing.TB) {
	if got := c.src.Local(); got != c.wantLocal {
		t.Errorf("Local = %v, want %v", got, c.wantLocal)
	}
}

// concurrent runs many checks at once.
func (c *contract) concurrent(t testing.TB) {
	var readers sync.WaitGroup
	for range 4 {
		for _, check := range []func(testing.TB){c.fileInfo, c.openFile, c.fileInfos, c.narrow, c.chunks, c.tryChunks, c.annotate, c.hashed} {
			readers.Go(func() { check(t) })
		}
	}
	readers.Wait()
}
